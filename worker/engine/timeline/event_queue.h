#ifndef FARANDOLE_WORKER_ENGINE_TIMELINE_EVENT_QUEUE_H_
#define FARANDOLE_WORKER_ENGINE_TIMELINE_EVENT_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/engine/timeline/timeline_text.h"

namespace farandole {

// Events of a timeline on their way to one sink. A thread of its own passes them on within 0.1 s. Events beyond its
// speed are dropped and counted. Start and Stop come in turns; Push from any thread meanwhile.
class EventQueue {
 public:
  // Events that wait.
  static constexpr size_t kMostWaiting = 1 << 16;
  // Gets events, and how many were dropped before the last of them.
  using Sink = std::function<void(const std::vector<TimelineEvent>& events, uint64_t dropped)>;

  ~EventQueue() { Stop(); }

  void Start(Sink sink);
  // Afterwards the sink has all events that were pushed, and is not called any more. No effect if not started.
  void Stop();
  // No effect if not started.
  void Push(const TimelineEvent& event);

 private:
  void Run();

  Sink sink_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TimelineEvent> waiting_;
  uint64_t dropped_ = 0;
  bool is_open_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_TIMELINE_EVENT_QUEUE_H_
