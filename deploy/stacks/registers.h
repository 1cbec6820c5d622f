#ifndef FARANDOLE_DEPLOY_STACKS_REGISTERS_H_
#define FARANDOLE_DEPLOY_STACKS_REGISTERS_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace farandole::stacks {

struct Registers {
  // By DWARF's numbers.
  std::vector<uint64_t> values;
  uint64_t stack_pointer = 0;
};

// False: this program knows no registers of this kind of processor.
bool CanReadRegisters();
// Of a thread that the calling thread has stopped by ptrace. False: errno says why.
bool ReadRegisters(pid_t tid, Registers* registers);

}  // namespace farandole::stacks

#endif  // FARANDOLE_DEPLOY_STACKS_REGISTERS_H_
