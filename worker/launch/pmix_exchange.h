#ifndef FARANDOLE_WORKER_LAUNCH_PMIX_EXCHANGE_H_
#define FARANDOLE_WORKER_LAUNCH_PMIX_EXCHANGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/launch/foreign_launch.h"

namespace farandole {

// Passes text among the processes of a launch over several hosts by PMIx, which Open MPI's mpirun and
// `srun --mpi=pmix` serve on each host (PMIx Standard 4.1). Its library, libpmix.so.2, is loaded where it is needed
// only. PMIx counts its users in a process, so MPI in the same process shares the connection, in either order.
// Thread-compatible.
class PmixExchange {
 public:
  // Connects with the PMIx server of this host.
  //   FAILED_PRECONDITION  there is no libpmix.so.2, it is not of the server's version (another client beside MPI's own
  //                        would take MPI's place at the server), or it cannot connect; the text says what and why
  static absl::StatusOr<std::unique_ptr<PmixExchange>> Open(const ForeignLaunch& launch);
  // Disconnects from the server, unless MPI still uses the connection. The server counts a process that ends without
  // this as failed. After it, MPI cannot connect any more. So destroy it when the process exits.
  ~PmixExchange();
  PmixExchange(const PmixExchange&) = delete;
  PmixExchange& operator=(const PmixExchange&) = delete;

  // The ranks of the launch on this host, ascending; none where PMIx does not say.
  std::vector<int> FindLocalRanks();

  // Rank 0 only: all processes of the launch can read `text` from now on, and so can a reader of the launcher's own
  // connections between hosts.
  //   FAILED_PRECONDITION  PMIx refuses; the text says why
  absl::Status Pin(const std::string& text);

  // The text that rank 0 has pinned, or pins until `deadline`.
  //   FAILED_PRECONDITION  PMIx fails; the text says how
  //   DEADLINE_EXCEEDED    nothing is pinned
  //   ABORTED              `interrupted`, which is asked every 100 ms
  absl::StatusOr<std::string> Read(absl::Time deadline, const std::function<bool()>& interrupted);

 private:
  struct Library;

  PmixExchange(std::unique_ptr<Library> library, std::string launch);

  const std::unique_ptr<Library> library_;
  // PMIx's name of the launch.
  const std::string launch_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_PMIX_EXCHANGE_H_
