#ifndef FARANDOLE_WORKER_MEMBER_HOST_PULSES_H_
#define FARANDOLE_WORKER_MEMBER_HOST_PULSES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "farandole/v1/worker.pb.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// The signs of life of a host's ranks, as one of them sees them in shared memory. The first live rank with a stream
// tells the coordinator of them all. One thread.
class HostPulses {
 public:
  // A rank as it is seen now.
  struct Sight {
    ReadyChannel::Pulse pulse;
    bool has_left = false;
  };

  // This rank is `own`; those of its host are [first, first + count).
  void Begin(int own, int first, int count);
  // All ranks live at `now_ns`.
  void Start(int64_t now_ns);
  int first() const { return first_; }
  int end() const { return first_ + static_cast<int>(ranks_.size()); }

  // Looks at all ranks and writes a row for each of them. A rank lives if its beat went up within the last
  // `most_age_ns`. True: this rank tells the coordinator of the host.
  bool Look(absl::FunctionRef<Sight(int rank)> see, int64_t now_ns, int64_t most_age_ns, v1::Heartbeat* heartbeat);

 private:
  struct Rank {
    uint64_t beat = 0;
    // When the beat last went up.
    int64_t advanced_ns = 0;
  };

  int own_ = 0;
  int first_ = 0;
  std::vector<Rank> ranks_;
  int64_t looked_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_HOST_PULSES_H_
