#include "worker/abi/c_call.h"

#include "worker/farandole.h"

namespace farandole {

std::string& LastError() {
  static thread_local std::string sentence;
  return sentence;
}

int Code(const absl::Status& status) {
  if (status.ok()) return FARANDOLE_OK;
  LastError() = std::string(status.message());
  // Abseil's number of it is that of STILL_PENDING here.
  if (absl::IsCancelled(status)) return FARANDOLE_CANCELLED;
  if (absl::IsUnknown(status)) return FARANDOLE_INTERNAL;
  return static_cast<int>(status.code());
}

Interrupted Wrap(int (*interrupted)(void)) {
  if (interrupted == nullptr) return {};
  return [interrupted] { return interrupted() != 0; };
}

absl::Status NotRunning() {
  if (Process().is_forked_child()) {
    return absl::FailedPreconditionError(
        "this process was forked from a worker and is no worker itself; start it anew to use farandole");
  }
  return absl::FailedPreconditionError("farandole is not initialized; call init() first (in C: farandole_init)");
}

}  // namespace farandole
