#include "deploy/launcher/process/early_signals.h"

#include <signal.h>
#include <unistd.h>

namespace farandole::launcher {

bool EarlySignals::HasEnd() {
  unsigned char signal = 0;
  ssize_t count = -1;
  while (end_ == 0 && (count = read(guard_.signals_fd, &signal, 1)) == 1) {
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) end_ = signal;
    if (signal == SIGTSTP) raise(SIGSTOP);
  }
  if (count == 0) end_ = SIGKILL;
  return end_ != 0;
}

}  // namespace farandole::launcher
