#ifndef FARANDOLE_BASE_QUIET_THREAD_H_
#define FARANDOLE_BASE_QUIET_THREAD_H_

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace farandole {

// A thread that gets no signals except for its own faults, and neither do the threads that it starts: signals are for
// the program's own threads, which expect them. Throws as std::thread does.
template <typename Body>
std::thread QuietThread(Body body) {
  class Silence {
   public:
    Silence() {
      sigset_t all;
      sigfillset(&all);
      // The thread causes these signals itself, and they kill the process if no handler may run.
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~Silence() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t before_;
  };
  const Silence silence;
  return std::thread(std::move(body));
}

// The same, detached. False: there are no more threads here, and it does not run.
template <typename Body>
bool DetachQuietly(Body body) {
  try {
    QuietThread(std::move(body)).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace farandole

#endif  // FARANDOLE_BASE_QUIET_THREAD_H_
