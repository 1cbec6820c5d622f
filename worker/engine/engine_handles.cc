// Functions of Engine that look up handles.
#include "worker/engine/engine.h"

namespace farandole {

bool Engine::IsKnown(int64_t handle) {
  Submission* submission = table_.BeginWaiting(handle);
  if (submission != nullptr) table_.DoneWaiting(submission, false).status().IgnoreError();
  return submission != nullptr;
}

Submission* Engine::Completed(int64_t handle) {
  Submission* submission = table_.BeginWaiting(handle);
  if (submission == nullptr) return nullptr;
  const absl::StatusOr<bool> complete = table_.DoneWaiting(submission, false);
  return complete.ok() && *complete ? submission : nullptr;
}

Submission* Engine::Result(int64_t handle) {
  Submission* submission = Completed(handle);
  if (submission == nullptr) return nullptr;
  return TraitsOf(submission->op).allocates_result ? submission : nullptr;
}

}  // namespace farandole
