#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PROCESS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/launcher/process/worker_terminals.h"

namespace farandole::launcher {

// The command to start: `executable` is a path, `arguments` begins with the name as the user wrote it, `environment`
// holds "NAME=value". `stdin_fd` is borrowed.
struct WorkerCommand {
  std::string executable;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  int stdin_fd = -1;
  WorkerTerminals terminals = {};
};

// A started worker. If a terminal cannot be made, its output goes to a pipe. It has no descriptor but 0, 1 and 2. It
// leads a process group of its own, and the kernel kills it (by SIGKILL, as no process would be left to send another
// signal) when the launcher dies. The launch reaps it, and reports its end by its pid.
struct WorkerProcess {
  pid_t pid = -1;
  // Read ends, non-blocking, close-on-exec; the caller closes them.
  int stdout_fd = -1;
  int stderr_fd = -1;
};

// Sets the size of the terminal behind `fd`; nothing happens where it is none.
void SetTerminalSize(int fd, TerminalSize size);

// Starts a worker and waits until it runs its program. Called on the thread that lives as long as the launcher.
//   NOT_FOUND            the file, or the interpreter that its first line names, does not exist
//   PERMISSION_DENIED    the file cannot be executed (no permission, wrong format, a directory)
//   RESOURCE_EXHAUSTED   no process or pipe can be made
absl::StatusOr<WorkerProcess> StartWorker(const WorkerCommand& command);

// The path of the program that this process runs; "" if it cannot be found.
std::string OwnProgram();

// The path of the program that `name` means: itself where it has a slash, otherwise the first executable file of this
// name in the directories of `path` (colon-separated).
//   NOT_FOUND, PERMISSION_DENIED  one sentence that names the command and the reason
absl::StatusOr<std::string> FindExecutable(const std::string& name, const std::string& path);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PROCESS_H_
