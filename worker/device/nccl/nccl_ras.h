#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_RAS_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_RAS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log_record.h"

namespace farandole {

// Bounds of one answer of RAS.
struct NcclRasBounds {
  // Where processes are silent, RAS answers after 9 s.
  absl::Duration time = absl::Seconds(10);
  size_t bytes = 64 * 1024;
};

// Asks NCCL about its communicators on all hosts: which ranks are behind, and which do not answer. From 2.24 on its
// processes ask each other ("RAS"), and one of each host answers at a port, as `ncclras` has it
// (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html). Asked on a detached thread.
// Calls come from one thread.
class NcclRas {
 public:
  // Takes one line, on the asking thread. May be called when the NcclRas is gone.
  using Say = std::function<void(LogLevel level, const std::string& line)>;

  // `address`: HOST:PORT, as NCCL_RAS_ADDR has it; "": do not ask.
  explicit NcclRas(const std::string& address, const NcclRasBounds& bounds = {});
  NcclRas(const NcclRas&) = delete;
  NcclRas& operator=(const NcclRas&) = delete;

  // Has `say` told where the answer is from, and then its lines, as warnings. If no answer comes, calls `say` with the
  // reason, as information; does not call it if no server listens. Does nothing while an earlier answer is still waited
  // for.
  void Ask(Say say);

 private:
  struct State;

  // shared: with the thread, which may outlive this.
  const std::shared_ptr<State> state_;
};

// RAS' status of the job, in its own words. If a bound cuts it short, its last line says so. Blocks for `bounds.time`,
// and for the look-up of the host's name.
//   NOT_FOUND: nobody listens there
//   INVALID_ARGUMENT: `address` is no HOST:PORT, or there is no such host
//   FAILED_PRECONDITION: who listens there does not speak RAS' protocol
//   UNAVAILABLE: the connection cannot be made, or ended before there was a status
//   DEADLINE_EXCEEDED: no status came in time
absl::StatusOr<std::string> ReadNcclRas(const std::string& address, const NcclRasBounds& bounds);

// The lines of a status that say what is wrong: those under its headings "Errors" and "Warnings", with these; if there
// are none, all others. Without empty and underlining ones, and 100 at most: the last one says how many more there are.
std::vector<std::string> NcclRasFindings(const std::string& status);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_RAS_H_
