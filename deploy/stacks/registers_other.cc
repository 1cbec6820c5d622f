#include <cerrno>

#include "deploy/stacks/registers.h"

namespace farandole::stacks {

bool CanReadRegisters() { return false; }

bool ReadRegisters(pid_t, Registers*) {
  errno = ENOSYS;
  return false;
}

}  // namespace farandole::stacks
