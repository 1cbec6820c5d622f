#ifndef FARANDOLE_WORKER_C_PROCESS_H_
#define FARANDOLE_WORKER_C_PROCESS_H_

#include <memory>
#include <mutex>
#include <shared_mutex>

#include "worker/noticeboard.h"
#include "worker/worker.h"

namespace farandole {

// The process's one Worker, behind the C interface. Calls hold `mutex` shared; starting and stopping hold it
// exclusively for the moment in which the pointer changes.
class CProcess {
 public:
  CProcess();

  std::shared_mutex& mutex() { return mutex_; }
  Worker* worker() { return worker_.get(); }
  // True after fork(2) in the child.
  bool is_forked_child() const { return is_forked_child_.load(); }

  // Finds the coordinator first, where plain mpirun or srun has started the process.
  //   FAILED_PRECONDITION: a worker runs already; else as FindEmbeddedCoordinator and Worker::Start
  absl::Status Start(WorkerOptions options, const Interrupted& interrupted);
  // OK if there is none.
  absl::Status Stop(const Interrupted& interrupted);

 private:
  absl::Status FindCoordinator(WorkerOptions* options, const Interrupted& interrupted);

  std::mutex life_;  // one Start or Stop at a time
  std::unique_ptr<Noticeboard> board_;
  std::shared_mutex mutex_;
  std::unique_ptr<Worker> worker_;
  std::atomic<bool> is_forked_child_{false};
};

// The one object; never destroyed, since threads may still be in a call when the process exits.
CProcess& Process();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_C_PROCESS_H_
