// The C interface to the stacks of the program's threads.
#include "worker/abi/c_call.h"
#include "worker/farandole.h"

using farandole::Code;
using farandole::Process;

extern "C" {

int farandole_set_stack_source(farandole_stack_reader read, int signal, int fd, uint64_t main_thread) {
  if (Process().is_forked_child()) return Code(farandole::NotRunning());
  Process().stacks().Set({read, signal, fd, main_thread});
  return FARANDOLE_OK;
}

}  // extern "C"
