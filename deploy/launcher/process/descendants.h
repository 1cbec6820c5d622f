#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_DESCENDANTS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_DESCENDANTS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace farandole::launcher {

// All processes that descend from `root` at present, without itself, zombies included, as /proc shows them. A process
// whose parent died belongs to its nearest living ancestor that is a subreaper. Empty where /proc cannot be read.
std::vector<pid_t> Descendants(pid_t root);

// Sends `signal` to all descendants of this process, and SIGCONT to those that might be stopped. A process that is
// forked meanwhile may be missed: call again until no child is left.
void SignalDescendants(int signal);

// "state D, in rpc_wait_bit_killable", as /proc says it of a process; "gone" if it is no more.
std::string DescribeState(pid_t pid);

// Kills everything that descends from this process and reaps it. Gives up on processes that do not die within 5 s of
// SIGKILL (one that hangs in the kernel). Needs SIGCHLD blocked.
void KillDescendants();

// A descriptor, close-on-exec, that is readable when the process has ended; -1: there is none, or no descriptor is
// left.
int OpenProcess(pid_t pid);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_DESCENDANTS_H_
