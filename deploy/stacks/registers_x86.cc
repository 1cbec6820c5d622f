#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "deploy/stacks/registers.h"

namespace farandole::stacks {

bool CanReadRegisters() { return true; }

bool ReadRegisters(pid_t tid, Registers* registers) {
  user_regs_struct regs = {};
  iovec place{&regs, sizeof(regs)};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &place) != 0) return false;
  // System V ABI for AMD64, figure 3.36; number 16 is the return address.
  registers->values = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8,
                       regs.r9,  regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
  registers->stack_pointer = regs.rsp;
  return true;
}

}  // namespace farandole::stacks
