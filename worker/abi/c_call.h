#ifndef FARANDOLE_WORKER_ABI_C_CALL_H_
#define FARANDOLE_WORKER_ABI_C_CALL_H_

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/abi/c_process.h"
#include "worker/abi/turn.h"

namespace farandole {

// The sentence of this thread's last failed call.
std::string& LastError();

// The status's code, for the C interface; keeps the sentence of an error.
int Code(const absl::Status& status);

// Asks the caller whether to give up; null: never.
Interrupted Wrap(int (*interrupted)(void));

// Why there is no worker in this process.
absl::Status NotRunning();

// Calls `use(worker)` while the worker is kept from going away; gives `otherwise` and sets the error where there is
// none.
template <typename Result, typename Use>
Result WithWorker(Result otherwise, const Use& use) {
  CProcess& process = Process();
  std::shared_lock<std::shared_mutex> lock(process.mutex(), std::defer_lock);
  // In a forked child the lock may be held by a thread that does not exist there.
  if (!process.is_forked_child()) lock.lock();
  if (!lock.owns_lock() || process.worker() == nullptr) {
    Code(NotRunning());
    return otherwise;
  }
  return use(*process.worker());
}

// The same while `call` runs code of the program: no lock is held, and the worker lives on.
template <typename Use>
int WithLastingWorker(const char* call, const Use& use) {
  if (Process().is_forked_child()) return Code(NotRunning());
  const BlockingCall blocking(call);
  if (absl::Status status = blocking.status(); !status.ok()) return Code(status);
  const std::shared_ptr<Worker> worker = Process().Share();
  if (worker == nullptr) return Code(NotRunning());
  const int code = use(*worker);
  // The result belongs to a worker that is gone.
  if (Process().Share() != worker) {
    return Code(absl::FailedPreconditionError(absl::StrCat(call, " has ended: shutdown() was called meanwhile")));
  }
  return code;
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ABI_C_CALL_H_
