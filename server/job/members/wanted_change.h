#ifndef FARANDOLE_SERVER_JOB_MEMBERS_WANTED_CHANGE_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_WANTED_CHANGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// When the members of a running epoch learn that workers wait to join, or that ranks are to leave. The members learn of
// newcomers after the join window, which begins with the first, and of ranks that are to leave at once. Owned by its
// Job.
class WantedChange {
 public:
  // `serial` is the last that was used in the epoch.
  WantedChange(uint64_t epoch, absl::Duration join_window, uint32_t serial)
      : epoch_(epoch), join_window_(join_window), serial_(serial) {}

  // Now `joining` workers could join and `leaving` ranks are to leave. True: call Tell to inform the members.
  bool IsDue(size_t joining, size_t leaving, absl::Time now);
  // The message to send; `sentence` names the workers and the reason.
  const v1::CoordinatorMessage& Tell(size_t joining, const std::vector<uint32_t>& leaving, const std::string& sentence);
  // The last message sent, if any.
  const std::optional<v1::CoordinatorMessage>& told() const { return told_; }
  uint32_t serial() const { return serial_; }
  absl::Time Deadline() const { return window_end_; }

 private:
  const uint64_t epoch_;
  const absl::Duration join_window_;
  uint32_t serial_;
  // InfiniteFuture: no newcomer is there that was not told of.
  absl::Time window_end_ = absl::InfiniteFuture();
  size_t joining_told_ = 0;
  size_t leaving_told_ = 0;
  std::optional<v1::CoordinatorMessage> told_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_WANTED_CHANGE_H_
