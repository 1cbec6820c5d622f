#ifndef FARANDOLE_WORKER_C_CALL_H_
#define FARANDOLE_WORKER_C_CALL_H_

#include <mutex>
#include <shared_mutex>
#include <string>

#include "absl/status/status.h"
#include "worker/c_process.h"

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

}  // namespace farandole

#endif  // FARANDOLE_WORKER_C_CALL_H_
