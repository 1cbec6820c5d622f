#ifndef FARANDOLE_SERVER_QUEUE_ALARM_H_
#define FARANDOLE_SERVER_QUEUE_ALARM_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace farandole {

// Wakes a thread that works in rounds, by a call or at a time, and not before the round has its distance from the last
// one. Any thread may call Wake, whatever locks it holds; one thread waits.
class Alarm {
 public:
  void Wake();
  // Returns when Wake was called since the last return, or `deadline` has come; no earlier than `earliest`. Both are of
  // SteadyNow.
  void Await(absl::Time deadline, absl::Time earliest);

 private:
  // Taken last, and never while another call is made. Not absl::Mutex: Debian's Abseil is not instrumented, and TSan
  // would see races that are none.
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_ALARM_H_
