#include "worker/member/host_pulses.h"

#include <algorithm>

namespace farandole {

void HostPulses::Begin(int own, int first, int count) {
  own_ = own;
  first_ = first;
  ranks_.assign(count, Rank());
}

void HostPulses::Start(int64_t now_ns) {
  for (Rank& rank : ranks_) rank.advanced_ns = now_ns;
  looked_ns_ = now_ns;
}

bool HostPulses::Look(absl::FunctionRef<Sight(int rank)> see, int64_t now_ns, int64_t most_age_ns,
                      v1::Heartbeat* heartbeat) {
  bool speaks_for_host = true;
  for (int rank = first_; rank < end(); ++rank) {
    const Sight sight = see(rank);
    Rank& known = ranks_[rank - first_];
    if (sight.pulse.beat != known.beat) {
      known.beat = sight.pulse.beat;
      // Since the last look, by this process' clock.
      known.advanced_ns = std::clamp(sight.pulse.beat_ns, looked_ns_, now_ns);
    }
    const int64_t age_ns = now_ns - known.advanced_ns;
    const bool lives = !sight.has_left && age_ns < most_age_ns;
    if (rank < own_ && lives && sight.pulse.is_attached) speaks_for_host = false;
    v1::Pulse* row = heartbeat->add_pulses();
    row->set_rank(static_cast<uint32_t>(rank));
    row->set_beat(sight.pulse.beat);
    row->set_batches(sight.pulse.batches);
    row->set_age_ms(static_cast<uint64_t>(age_ns / 1'000'000));
  }
  looked_ns_ = now_ns;
  return speaks_for_host;
}

}  // namespace farandole
