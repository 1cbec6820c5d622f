#ifndef FARANDOLE_DEPLOY_LAUNCHER_GUARD_H_
#define FARANDOLE_DEPLOY_LAUNCHER_GUARD_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>

namespace farandole::launcher {

// The two processes of a launcher, so that no descendant is left when either of them is killed:
//
//   guard     the process that the user started and signals. It adopts what the other leaves behind and kills it.
//   launcher  its child: parent of the workers. It sees the guard's end and then kills its workers.
//
// Workers alone could be tied to the launcher's life by the kernel (PR_SET_PDEATHSIG), their children not: these need a
// living ancestor that adopts them, and SIGKILL can take only one of two at a time. Who kills both at the same moment
// still kills the workers; of their children only those then end that watch their parent, as torch's data loaders do.
//
// Signals that end or concern a run (LauncherSignals()) are blocked in both. The guard passes on what it gets, so the
// launcher takes signals from the guard only: from a terminal, both get them.
struct GuardLink {
  pid_t guard_pid = 0;
  // A pidfd of the guard: readable when it has ended. Open as long as `body` runs.
  int guard_fd = -1;
};

// Signals that a launcher takes (those that were ignored at its start stay so and are left out): SIGINT, SIGTERM,
// SIGHUP, SIGQUIT (stop), SIGUSR1, SIGUSR2 (passed on), SIGTSTP, SIGCONT (pause) and SIGCHLD.
sigset_t LauncherSignals();

// Runs `body` in the launcher process and returns, in the guard, its result, or 128 + the signal that killed it. At
// return the guard has no descendant. Called on the only thread of the process; `body` may start threads.
int RunGuarded(const std::function<int(const GuardLink&)>& body);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_GUARD_H_
