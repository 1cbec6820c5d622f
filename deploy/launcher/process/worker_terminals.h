#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_TERMINALS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_TERMINALS_H_

#include <cstdint>

namespace farandole::launcher {

// A terminal's size; without columns: no terminal.
struct TerminalSize {
  uint16_t columns = 0;
  uint16_t rows = 0;
};

// Where a worker's output goes: terminals of its own, or pipes.
struct WorkerTerminals {
  TerminalSize out;
  TerminalSize err;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_TERMINALS_H_
