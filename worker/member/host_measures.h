#ifndef FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_
#define FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "worker/measure/last_arrivals.h"
#include "worker/measure/network_counters.h"
#include "worker/measure/rank_record.h"

namespace farandole {

// Computes what a host's ranks have measured since the last heartbeat, from the counters in their shared records. Every
// rank of the host computes this at each beat, so that any of them can take over the host's report. One thread.
class HostMeasures {
 public:
  using ReadNetwork = std::function<NetworkCounters()>;
  explicit HostMeasures(ReadNetwork read_network = NetworkCounters::Read) : read_network_(std::move(read_network)) {}

  // As HostPulses: the host's ranks are [first, first + count). `now_ns`: the first look. `sending`: as
  // Connections::Sending; may be null.
  void Start(int first, int count, int64_t now_ns, std::function<absl::Duration()> sending = nullptr);
  // Writes the part of this rank's own record that its process knows: CPU time, and how busy its connections are.
  void State(RankRecord* own) const;
  // Writes the columns; those about the host's network where this rank `speaks` for it. `arrivals`: rank 0's; null
  // elsewhere.
  void Look(absl::FunctionRef<const RankRecord*(int rank)> see, bool speaks, const LastArrivals* arrivals,
            int64_t now_ns, v1::Measures* measures);

 private:
  // Sums since the epoch's beginning.
  struct Rank {
    uint64_t steps = 0;
    int64_t waited_ns = 0;
    // If the sum was far behind `waited_ns` at the last look: that sum; else -1.
    int64_t behind_ns = -1;
    int64_t waited_in_batch_ns = 0;
    int64_t batch_ns = 0;
    int64_t cpu_ns = 0;
    int64_t sending_ns = 0;
  };
  // By how many microseconds the rank has waited more, if `now` is the sum of its waits.
  static uint64_t AdvanceWaited(int64_t now, Rank* known);
  void LookAtRank(const RankRecord& record, int64_t now_ns, Rank* known, v1::Measures* measures) const;
  void LookAtNetwork(v1::Measures* measures);
  void LookAtArrivals(const LastArrivals& arrivals, v1::Measures* measures);

  const ReadNetwork read_network_;
  std::function<absl::Duration()> sending_;
  int first_ = 0;
  std::vector<Rank> ranks_;
  int64_t looked_ns_ = 0;
  std::optional<NetworkCounters> network_;
  std::vector<LastArrivals::Tally> tallies_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_
