#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_STAGE_COPIER_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_STAGE_COPIER_H_

#include <cstddef>
#include <cstdint>

#include "worker/core/clock.h"

namespace farandole {

// Copies into memory that peers have read, and whose lines they may still have in their caches. If the peers' cores
// share a cache with this one, ordinary stores are best: the peers find the data there. If they do not, each store
// first fetches its line from the peer's core (0.45 us a KiB), and stores past the caches win, though the peers then
// read from memory. Which it is depends on where the processes run at the moment, so both are timed again and again.
// Used by one thread at a time.
class StageCopier {
 public:
  explicit StageCopier(ClockNs clock = MonotonicNs) : clock_(clock) {}

  void Copy(char* stage, const void* from, size_t bytes);
  // Whether copies go past the caches at present.
  bool streams() const { return streams_; }

 private:
  void Probe(char* stage, const void* from, size_t bytes);

  const ClockNs clock_;
  bool streams_ = false;
  // Copies until the next probe, and how many lay between the last two.
  int until_probe_ = 0;
  int interval_ = 8;
  // How many probes this round had, and how long they took.
  int probes_ = 0;
  double ordinary_ns_ = 0;
  double streamed_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_STAGE_COPIER_H_
