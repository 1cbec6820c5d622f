#ifndef FARANDOLE_WORKER_MEMBER_TIMELINE_RELAY_H_
#define FARANDOLE_WORKER_MEMBER_TIMELINE_RELAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "farandole/v1/timeline.pb.h"
#include "worker/engine/submissions/book/timeline.h"
#include "worker/measure/clock_match.h"

namespace farandole {

// Records the timeline of the whole job where the coordinator says so: sends this rank's events to it, within 0.1 s.
// Two chunks at most are on their way; while the coordinator does not answer them, at most 4 MiB of lines wait, and
// further events are lost and counted. Each chunk and its answer show how far the two clocks are apart. In one epoch;
// thread-safe.
class TimelineRelay {
 public:
  // `now_ns` is the time of the events' clock, which is that of the lines, too; `send` may be called by any thread;
  // both outlive it, and `timeline` does.
  TimelineRelay(Timeline* timeline, int rank, std::string who, std::function<int64_t()> now_ns,
                std::function<void(v1::TimelineChunk)> send);
  // Sends nothing any more.
  ~TimelineRelay();

  // An order, or the answer to a chunk.
  void Take(const v1::TimelineOrder& order);
  // The stream is a new one: answers that were awaited do not come.
  void Renew();
  // Sends what there is, and ends for good.
  void Finish();

 private:
  void Begin(const v1::TimelineOrder& order);
  void Add(const std::vector<TimelineEvent>& events, uint64_t dropped);
  void SendLocked(bool is_last);

  Timeline* const timeline_;
  const int rank_;
  const std::string who_;
  const std::function<int64_t()> now_ns_;
  const std::function<void(v1::TimelineChunk)> send_;

  std::mutex life_;  // one Take, Renew or Finish at a time
  bool is_listening_ = false;
  bool is_over_ = false;

  std::mutex mutex_;
  uint64_t epoch_ = 0;
  uint64_t recording_ = 0;  // 0: none
  std::string lines_;
  std::unique_ptr<TimelineText> text_;
  uint32_t events_ = 0;
  uint64_t dropped_ = 0;
  int unanswered_ = 0;
  int probes_ = 0;
  ClockMatch clock_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_TIMELINE_RELAY_H_
