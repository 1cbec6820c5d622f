#include "deploy/launcher/process/worker_process.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole::launcher {
namespace {

// Pipes to a worker that is being started: it gets [1].
struct Pipes {
  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
  // Closed by a successful exec; otherwise carries errno.
  int exec[2] = {-1, -1};

  bool Open(const WorkerTerminals& terminals) {
    return OpenStream(terminals.out, out) && OpenStream(terminals.err, err) && pipe2(exec, O_CLOEXEC) == 0;
  }
  static bool OpenStream(TerminalSize terminal, int* fds) {
    if (terminal.columns > 0 && OpenTerminal(terminal, fds)) return true;
    return pipe2(fds, O_CLOEXEC) == 0;
  }
  // It is no process's controlling terminal, so that a worker that runs others in the background is not stopped by it.
  static bool OpenTerminal(TerminalSize size, int* fds) {
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fds[0] >= 0 && unlockpt(fds[0]) == 0) fds[1] = ioctl(fds[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    termios settings{};
    if (fds[1] >= 0 && tcgetattr(fds[1], &settings) == 0) {
      // Bytes arrive as they were written.
      cfmakeraw(&settings);
      tcsetattr(fds[1], TCSANOW, &settings);
      SetTerminalSize(fds[0], size);
      return true;
    }
    Close(&fds[0]);
    Close(&fds[1]);
    return false;
  }
  static void Close(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  void CloseWorkerEnds() {
    Close(&out[1]);
    Close(&err[1]);
    Close(&exec[1]);
  }
  void CloseAll() {
    CloseWorkerEnds();
    Close(&out[0]);
    Close(&err[0]);
    Close(&exec[0]);
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// From now on the process has no controlling terminal. A program that opened /dev/tty, as getpass does, would be
// stopped for reading or setting it, since its process group is not the terminal's foreground, and the user would not
// see why.
void LeaveTerminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return;
  ioctl(terminal, TIOCNOTTY);
  close(terminal);
}

// Runs in the child between fork and exec, where other threads' locks may be held: system calls only.
[[noreturn]] void BecomeWorker(const char* executable, char* const* arguments, char* const* environment, int stdin_fd,
                               const Pipes& pipes, pid_t launcher) {
  setpgid(0, 0);
  LeaveTerminal();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before the kernel was told.
  if (getppid() != launcher) _exit(128 + SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Libraries open sockets that an exec would keep (Boost.Asio's are such): a worker gets nothing but 0, 1 and 2.
  close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  if (dup2(stdin_fd, 0) == 0 && dup2(pipes.out[1], 1) == 1 && dup2(pipes.err[1], 2) == 2) {
    execve(executable, arguments, environment);
  }
  const int error = errno;
  if (write(pipes.exec[1], &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

absl::Status CannotExecute(const std::string& name, int error) {
  if (error == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("cannot execute '", name, "': it, or the interpreter that its first line names, does not exist"));
  }
  if (error == ENOMEM || error == EAGAIN) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot execute '", name, "': ", strerror(error)));
  }
  return absl::PermissionDeniedError(absl::StrCat("cannot execute '", name, "': ", strerror(error)));
}

// OK: a file that may be executed.
absl::Status CheckExecutable(const std::string& name, const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat("cannot execute '", name, "': no such file"));
    }
    return absl::PermissionDeniedError(absl::StrCat("cannot execute '", name, "': ", strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat("cannot execute '", name, "': it is a directory"));
  }
  if (access(file.c_str(), X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot execute '", name, "': ", file, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

void SetTerminalSize(int fd, TerminalSize size) {
  const winsize window{size.rows, size.columns, 0, 0};
  ioctl(fd, TIOCSWINSZ, &window);
}

absl::StatusOr<WorkerProcess> StartWorker(const WorkerCommand& command) {
  Pipes pipes;
  if (!pipes.Open(command.terminals)) {
    const int error = errno;
    pipes.CloseAll();
    return absl::ResourceExhaustedError(absl::StrCat("no pipe can be made: ", strerror(error)));
  }
  const std::vector<char*> arguments = Pointers(command.arguments);
  const std::vector<char*> environment = Pointers(command.environment);
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeWorker(command.executable.c_str(), arguments.data(), environment.data(), command.stdin_fd, pipes, launcher);
  }
  if (pid < 0) {
    const int error = errno;
    pipes.CloseAll();
    return absl::ResourceExhaustedError(absl::StrCat("no process can be made: ", strerror(error)));
  }
  // In both processes, so that the group exists in either order.
  setpgid(pid, pid);
  pipes.CloseWorkerEnds();
  int error = 0;
  ssize_t got;
  while ((got = read(pipes.exec[0], &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    pipes.CloseAll();
    return CannotExecute(command.arguments[0], error);
  }
  Pipes::Close(&pipes.exec[0]);
  fcntl(pipes.out[0], F_SETFL, O_NONBLOCK);
  fcntl(pipes.err[0], F_SETFL, O_NONBLOCK);
  return WorkerProcess{pid, pipes.out[0], pipes.err[0]};
}

std::string OwnProgram() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

absl::StatusOr<std::string> FindExecutable(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    const absl::Status found = CheckExecutable(name, name);
    if (!found.ok()) return found;
    return name;
  }
  absl::Status refused;
  for (absl::string_view directory : absl::StrSplit(path, ':')) {
    const std::string file = directory.empty() ? name : absl::StrCat(directory, "/", name);
    const absl::Status found = CheckExecutable(name, file);
    if (found.ok()) return file;
    if (absl::IsPermissionDenied(found) && refused.ok()) refused = found;
  }
  if (!refused.ok()) return refused;
  return absl::NotFoundError(absl::StrCat("cannot execute '", name, "': not found in PATH (", path, ")"));
}

}  // namespace farandole::launcher
