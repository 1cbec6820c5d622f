#include "deploy/launcher/process/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/descendants.h"

namespace farandole::launcher {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

// The guard's end of the link.
struct Launcher {
  pid_t pid;
  int signals_fd;
  // It was told to pause, and not yet to go on.
  bool is_to_pause = false;

  void PassOn(int signal) {
    if (signal == SIGTSTP) is_to_pause = true;
    if (signal == SIGCONT) is_to_pause = false;
    const unsigned char byte = static_cast<unsigned char>(signal);
    // If it cannot be written, the launcher is gone, and its end is on the way to us.
    if (write(signals_fd, &byte, 1) == 1 && signal == SIGCONT) kill(pid, SIGCONT);
  }
};

// Reaps ended children. Returns true with the launcher's status when it was among them.
bool ReapLauncher(Launcher& launcher, int* status) {
  for (;;) {
    int seen = 0;
    const pid_t pid = waitpid(-1, &seen, WNOHANG | WUNTRACED);
    if (pid <= 0) return false;
    if (pid != launcher.pid) continue;
    if (WIFSTOPPED(seen)) {
      // If another process stopped the launcher, that process continues it, too.
      if (!launcher.is_to_pause) continue;
      // The launcher has paused its workers and itself; so does the guard, and the shell sees it. The signal that
      // continues the guard continues the launcher, too.
      launcher.is_to_pause = false;
      raise(SIGSTOP);
      kill(pid, SIGCONT);
      continue;
    }
    *status = seen;
    return true;
  }
}

sigset_t SignalsToTake() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (int signal : kSignals) {
    struct sigaction present {};
    // Signals that nohup or a shell without job control has ignored for us stay ignored.
    if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

// Mends the mistakes of a careless parent: descriptors 0 to 2 closed, so that the next file would become one of them;
// SIGCHLD ignored, so that ends of children could not be seen.
void MendInheritance() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= 2 && fcntl(fd, F_SETFD, 0) == 0);
  if (fd > 2) close(fd);
  signal(SIGCHLD, SIG_DFL);
}

int Guard(const std::string& program, Launcher launcher, const sigset_t& signals) {
  signal(SIGPIPE, SIG_IGN);
  int status = 0;
  for (;;) {
    siginfo_t arrived{};
    if (sigwaitinfo(&signals, &arrived) < 0) continue;
    if (arrived.si_signo != SIGCHLD) {
      launcher.PassOn(arrived.si_signo);
    } else if (ReapLauncher(launcher, &status)) {
      break;
    }
  }
  KillDescendants();
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr, "%s: the launcher process (pid %d) was killed by %s; its workers were killed as well\n",
               program.c_str(), launcher.pid, SignalName(WTERMSIG(status)).c_str());
  return 128 + WTERMSIG(status);
}

}  // namespace

int RunGuarded(const std::string& program, const std::function<int(const GuardLink&)>& body) {
  MendInheritance();
  const sigset_t signals = SignalsToTake();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int link[2] = {-1, -1};
  const pid_t guard = getpid();
  std::fflush(nullptr);
  const pid_t launcher = pipe2(link, O_CLOEXEC | O_NONBLOCK) == 0 ? fork() : -1;
  if (launcher < 0) {
    std::fprintf(stderr, "%s: the launcher cannot be started: %s\n", program.c_str(), strerror(errno));
    return 1;
  }
  if (launcher == 0) {
    close(link[1]);
    // Not inherited. The launcher adopts as well, so that it can let leftovers end in peace.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    // A stopped launcher could not see the guard's end.
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    const int code = body(GuardLink{guard, link[0]});
    std::fflush(nullptr);
    _exit(code);
  }
  close(link[0]);
  const int code = Guard(program, Launcher{launcher, link[1]}, signals);
  close(link[1]);
  return code;
}

}  // namespace farandole::launcher
