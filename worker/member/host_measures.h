#ifndef FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_
#define FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "farandole/v1/worker.pb.h"
#include "worker/measure/last_arrivals.h"
#include "worker/measure/network_counters.h"
#include "worker/measure/rank_record.h"
#include "worker/measure/section_clock.h"

namespace farandole {

// Computes what a host's ranks have measured since the last heartbeat, from the counters in their shared records. Every
// rank of the host computes this at each beat, so that any of them can take over the host's report. One thread.
class HostMeasures {
 public:
  using ReadNetwork = std::function<NetworkCounters()>;
  // As RankRecord::PeerHost.
  struct Sending {
    int host = 0;
    int64_t ns = 0;
    uint64_t bytes = 0;
  };
  using ReadSending = std::function<std::vector<Sending>()>;
  explicit HostMeasures(ReadNetwork read_network = NetworkCounters::Read) : read_network_(std::move(read_network)) {}

  // As HostPulses: the host's ranks are [first, end). `now_ns`: the first look. `sending`: as
  // Connections::Sending. Both may be null.
  void Start(int first, int end, int64_t now_ns, ReadSending sending = nullptr, SectionClock* sections = nullptr);
  // Writes the part of this rank's own record that its process knows: CPU time, how busy its connections are, and the
  // sections of its program.
  void State(RankRecord* own, const SectionClock::Moment& now) const;
  // Writes the columns; those about the host's network where this rank `speaks` for it. `arrivals`: rank 0's; null
  // elsewhere.
  void Look(absl::FunctionRef<const RankRecord*(int rank)> see, bool speaks, const LastArrivals* arrivals,
            int64_t now_ns, v1::Measures* measures);

 private:
  struct PeerHost {
    int64_t sending_ns = 0;
    uint64_t bytes = 0;
  };
  // Sums since the epoch's beginning.
  struct Rank {
    uint64_t steps = 0;
    int64_t waited_ns = 0;
    // If the sum was far behind `waited_ns` at the last look: that sum; else -1.
    int64_t behind_ns = -1;
    int64_t waited_in_batch_ns = 0;
    int64_t batch_ns = 0;
    int64_t cpu_ns = 0;
    std::array<PeerHost, RankRecord::kMostPeerHosts> peers;
    std::array<int64_t, RankRecord::kMostSections> section_ns = {};
  };
  // By how many microseconds the rank has waited more, if `now` is the sum of its waits.
  static uint64_t AdvanceWaited(int64_t now, Rank* known);
  void LookAtRank(const RankRecord& record, int64_t now_ns, Rank* known, v1::Measures* measures) const;
  void LookAtSections(absl::FunctionRef<const RankRecord*(int rank)> see, v1::Measures* measures);
  void LookAtPeers(absl::FunctionRef<const RankRecord*(int rank)> see, v1::Measures* measures);
  void LookAtNetwork(v1::Measures* measures);
  void LookAtArrivals(const LastArrivals& arrivals, v1::Measures* measures);

  const ReadNetwork read_network_;
  ReadSending sending_;
  SectionClock* sections_ = nullptr;
  int first_ = 0;
  std::vector<Rank> ranks_;
  int64_t looked_ns_ = 0;
  std::optional<NetworkCounters> network_;
  std::vector<LastArrivals::Tally> tallies_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_HOST_MEASURES_H_
