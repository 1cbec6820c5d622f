#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_GUARD_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_GUARD_H_

#include <sys/types.h>

#include <functional>
#include <string>

namespace farandole::launcher {

// The two processes of a launcher, so that no descendant is left when either of them is killed:
//
//   guard     the process that the user started and signals. It adopts the other's remaining children and kills them.
//   launcher  its child: parent of the workers. It sees the guard's end and then kills its workers.
//
// The kernel can kill the workers when the launcher dies (PR_SET_PDEATHSIG), but not the workers' children. Those need
// a living ancestor that adopts them, so two processes watch each other. If both are killed at the same moment, the
// workers still die, but of their children only those that watch their parent, as torch's data loaders do.
//
// Both block the signals that concern a run: SIGINT, SIGTERM, SIGHUP, SIGQUIT (stop it), SIGUSR1, SIGUSR2 (for the
// workers), SIGTSTP, SIGCONT (pause it), SIGWINCH (the terminal has another size). Signals that were ignored at the
// start stay ignored. The guard receives the signals and passes them on through a pipe. The launcher receives none
// itself: a terminal or `timeout` signals both processes, and the kernel merges equal pending signals, so it could not
// count them.
struct GuardLink {
  // The guard.
  pid_t pid = 0;
  // Read end of the pipe: a byte for each signal, its number; the end of file when the guard has ended. Non-blocking,
  // open as long as `body` runs.
  int signals_fd = -1;
};

// Runs `body` in the launcher process and returns, in the guard, its result, or 128 + the signal that killed it. At
// return the guard has no descendant. Its own lines on stderr begin with `program`. Called on the only thread of the
// process; `body` may start threads.
int RunGuarded(const std::string& program, const std::function<int(const GuardLink&)>& body);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_GUARD_H_
