#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ALARM_CLOCK_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ALARM_CLOCK_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"

namespace farandole::launcher {

// Time since its making (CLOCK_MONOTONIC), and one alarm. Owned by the waiting object; one thread.
class AlarmClock {
 public:
  // `loop` is borrowed; `on_alarm` is called by it.
  //   RESOURCE_EXHAUSTED  no timer can be made
  static absl::StatusOr<std::unique_ptr<AlarmClock>> Make(EventLoop* loop, std::function<void()> on_alarm);
  ~AlarmClock();
  AlarmClock(const AlarmClock&) = delete;
  AlarmClock& operator=(const AlarmClock&) = delete;

  absl::Duration Now() const;
  // The alarm is due at that time, instead of an earlier one; InfiniteDuration: it is not due.
  void Set(absl::Duration at);

 private:
  AlarmClock(EventLoop* loop, int fd);

  EventLoop* const loop_;
  const int fd_;
  const absl::Duration start_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ALARM_CLOCK_H_
