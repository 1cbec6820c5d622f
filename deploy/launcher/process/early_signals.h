#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EARLY_SIGNALS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EARLY_SIGNALS_H_

#include "deploy/launcher/process/guard.h"

namespace farandole::launcher {

// The signals that a launcher gets before it has workers, as its guard passes them on.
class EarlySignals {
 public:
  explicit EarlySignals(const GuardLink& guard) : guard_(guard) {}

  // Whether the launch is to end. Stops this process for a SIGTSTP; ignores the signals for workers.
  bool HasEnd();
  // The signal that ends it; SIGKILL: the guard's end. 0: none came.
  int end() const { return end_; }

 private:
  const GuardLink guard_;
  int end_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EARLY_SIGNALS_H_
