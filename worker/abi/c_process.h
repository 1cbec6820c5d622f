#ifndef FARANDOLE_WORKER_ABI_C_PROCESS_H_
#define FARANDOLE_WORKER_ABI_C_PROCESS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/abi/turn.h"
#include "worker/core/lineage.h"
#include "worker/engine/submissions/book/timeline.h"
#include "worker/launch/options.h"
#include "worker/launch/pmix_exchange.h"
#include "worker/member/worker.h"

namespace farandole {

// The process's one Worker, behind the C interface, and the state that outlives it. Calls hold `mutex` shared; a call
// that changes the worker has its turn, and holds `mutex` exclusively for the moment in which the pointer changes.
// While code of the program may run, in `interrupted`, no lock is held: it may call the library.
class CProcess {
 public:
  CProcess();

  std::shared_mutex& mutex() { return mutex_; }
  Worker* worker() { return worker_.get(); }
  // For calls within which code of the program runs, which may stop the worker; it lives until they return. Null: there
  // is none.
  std::shared_ptr<Worker> Share();
  // True after fork(2) in the child.
  bool is_forked_child() const { return is_forked_child_.load(); }

  // Finds the coordinator first, where plain mpirun or srun has started the process.
  //   FAILED_PRECONDITION: a worker runs already, or Stop was called meanwhile; else as FindEmbeddedCoordinator and
  //   Worker::Start
  absl::Status Start(WorkerOptions options, const Interrupted& interrupted);
  // As farandole_rejoin. Calls that come meanwhile still get the old worker.
  absl::Status Rejoin(const Interrupted& interrupted);
  // OK if there is none. Has a Start or Rejoin that runs meanwhile give up. Called within a Start, Rejoin or Stop, by
  // `interrupted`: that stops the worker, after this has returned.
  absl::Status Stop(const Interrupted& interrupted);
  bool is_stopping() const { return is_stopping_.load(); }
  // As farandole_depart; FAILED_PRECONDITION if the worker's job is not elastic.
  absl::Status Depart(Worker& worker, absl::Duration grace, const std::string& reason);
  bool is_elastic() const { return is_elastic_.load(); }
  // Stopped at the latest by Stop.
  Timeline& timeline() { return timeline_; }
  StackSource& stacks() { return stacks_; }
  LoggedQueue& logged() { return logged_; }
  SectionClock& sections() { return sections_; }

 private:
  struct Departure {
    absl::Duration grace;
    std::string reason;
  };
  // These run in the turn.
  absl::Status StartInTurn(WorkerOptions options, const Interrupted& interrupted);
  absl::Status RejoinInTurn(const Interrupted& interrupted);
  absl::Status StopInTurn(const Interrupted& interrupted);
  // Gives the turn back after a Start or Rejoin with this result, and gives the result for the caller.
  absl::Status EndTurn(absl::Status status, const Interrupted& interrupted);
  Interrupted OrStop(const Interrupted& interrupted) const;
  absl::Status FindCoordinator(WorkerOptions* options, const Interrupted& interrupted);
  // Goes on to the next epoch where one ends before its peers have met.
  absl::StatusOr<std::unique_ptr<Worker>> StartWorker(const Interrupted& interrupted);
  absl::Status Replace(absl::StatusOr<std::unique_ptr<Worker>> worker);
  // By the settings; a failure to attach or to write does not stop the training.
  void AttachProfiler();
  void StartTimeline();
  void Warn(int rank, absl::string_view sentence) const;

  Turn turn_;  // of Start, Rejoin and Stop, and what follows
  // Of the last Start.
  std::optional<WorkerOptions> options_;
  Lineage lineage_;
  std::unique_ptr<PmixExchange> board_;
  Timeline timeline_;
  StackSource stacks_;
  LoggedQueue logged_;
  SectionClock sections_;
  std::shared_mutex mutex_;
  // Shared with calls within which code of the program runs.
  std::shared_ptr<Worker> worker_;
  std::mutex departure_mutex_;
  std::optional<Departure> departure_;
  std::atomic<bool> is_elastic_{false};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_forked_child_{false};
};

// The one object; never destroyed, since threads may still be in a call when the process exits.
CProcess& Process();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ABI_C_PROCESS_H_
