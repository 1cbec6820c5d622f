// The C interface to the timeline.
#include "worker/abi/c_call.h"
#include "worker/farandole.h"

using farandole::Code;
using farandole::Process;
using farandole::Worker;

extern "C" {

int farandole_start_timeline(const char* path, int mark_cycles) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    return Code(Process().timeline().Start(path == nullptr ? "" : path, mark_cycles != 0, worker.rank_numbers().rank,
                                           worker.who()));
  });
}

int farandole_stop_timeline(void) {
  if (Process().is_forked_child()) return Code(farandole::NotRunning());
  Process().timeline().Stop();
  return FARANDOLE_OK;
}

}  // extern "C"
