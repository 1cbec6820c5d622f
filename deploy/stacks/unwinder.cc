#include "deploy/stacks/unwinder.h"

#include <string.h>
#include <sys/uio.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"
#include "deploy/stacks/frame_name.h"

namespace farandole::stacks {
namespace {

constexpr size_t kMostFrames = 100;
constexpr size_t kMostPathBytes = 256;

const Dwfl_Callbacks kCallbacks = {dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo, nullptr, nullptr};

std::string LastPart(const char* path) {
  const char* const slash = strrchr(path, '/');
  return Plain(slash == nullptr ? path : slash + 1, kMostPathBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Unwinder>> Unwinder::Open(pid_t pid) {
  std::unique_ptr<Unwinder> unwinder(new Unwinder(pid));
  unwinder->dwfl_ = dwfl_begin(&kCallbacks);
  if (unwinder->dwfl_ == nullptr) return absl::InternalError(absl::StrCat("libdw: ", dwfl_errmsg(-1)));
  // Positive: errno.
  const int failed = dwfl_linux_proc_report(unwinder->dwfl_, pid);
  if (failed != 0 || dwfl_report_end(unwinder->dwfl_, nullptr, nullptr) != 0) {
    return absl::InternalError(absl::StrCat("the list of the files that process ", pid, " has mapped cannot be read: ",
                                            failed > 0 ? strerror(failed) : dwfl_errmsg(-1)));
  }
  static const Dwfl_Thread_Callbacks kThreads = {NextThread, GetThread, ReadMemory, SetRegisters, nullptr, nullptr};
  if (!dwfl_attach_state(unwinder->dwfl_, nullptr, pid, &kThreads, unwinder.get()))
    return absl::InternalError(absl::StrCat("the stacks of process ", pid, " cannot be followed: ", dwfl_errmsg(-1)));
  return unwinder;
}

Unwinder::~Unwinder() { dwfl_end(dwfl_); }

pid_t Unwinder::NextThread(Dwfl*, void* self, void** thread) {
  const ThreadSnapshot* const snapshot = static_cast<Unwinder*>(self)->snapshot_;
  // Null before the first thread.
  if (snapshot == nullptr || *thread != nullptr) return 0;
  *thread = self;
  return snapshot->tid;
}

bool Unwinder::GetThread(Dwfl*, pid_t tid, void* self, void** thread) {
  const ThreadSnapshot* const snapshot = static_cast<Unwinder*>(self)->snapshot_;
  if (snapshot == nullptr || snapshot->tid != tid) return false;
  *thread = self;
  return true;
}

bool Unwinder::ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
  const auto* const unwinder = static_cast<Unwinder*>(self);
  const ThreadSnapshot& snapshot = *unwinder->snapshot_;
  const uint64_t offset = address - snapshot.stack_begin;
  if (offset < snapshot.stack.size() && snapshot.stack.size() - offset >= sizeof(*word)) {
    memcpy(word, snapshot.stack.data() + offset, sizeof(*word));
    return true;
  }
  // Elsewhere, as in a signal's own stack, as it is now.
  iovec local{word, sizeof(*word)};
  iovec remote{reinterpret_cast<void*>(address), sizeof(*word)};
  return process_vm_readv(unwinder->pid_, &local, 1, &remote, 1, 0) == sizeof(*word);
}

bool Unwinder::SetRegisters(Dwfl_Thread* thread, void* self) {
  const std::vector<uint64_t>& values = static_cast<Unwinder*>(self)->snapshot_->registers.values;
  return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(values.size()), values.data());
}

int Unwinder::TakeFrame(Dwfl_Frame* frame, void* self) {
  std::vector<uint64_t>& addresses = static_cast<Unwinder*>(self)->addresses_;
  Dwarf_Addr address = 0;
  bool is_interrupted = false;
  if (!dwfl_frame_pc(frame, &address, &is_interrupted)) return DWARF_CB_ABORT;
  // A return address may lie behind its function's end, as after a call that never returns.
  if (!is_interrupted && address > 0) --address;
  addresses.push_back(address);
  return addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

std::vector<uint64_t> Unwinder::Unwind(const ThreadSnapshot& snapshot) {
  addresses_.clear();
  if (!snapshot.why_not.empty()) return {};
  snapshot_ = &snapshot;
  // A stack whose outer part cannot be followed is given as far as it can.
  dwfl_getthread_frames(dwfl_, snapshot.tid, TakeFrame, this);
  snapshot_ = nullptr;
  return std::move(addresses_);
}

const v1::StackFrame& Unwinder::Describe(uint64_t address) {
  const auto [found, is_new] = known_.try_emplace(address);
  if (is_new) found->second = Look(address);
  return found->second;
}

v1::StackFrame Unwinder::Look(uint64_t address) {
  v1::StackFrame frame;
  Dwfl_Module* const module = dwfl_addrmodule(dwfl_, address);
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  const char* path = nullptr;
  if (module != nullptr) path = dwfl_module_info(module, nullptr, &begin, &end, nullptr, nullptr, nullptr, nullptr);
  // libdw takes an address behind the last file for a part of that.
  if (module == nullptr || address < begin || address >= end) {
    // Made while the program runs, as by a compiler within it; its address differs from run to run.
    frame.set_function("(code in no file)");
    return frame;
  }
  if (path != nullptr) frame.set_module(LastPart(path));
  GElf_Off offset = 0;
  GElf_Sym symbol = {};
  const char* const name = dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  if (name == nullptr) {
    frame.set_function(absl::StrCat(frame.module(), "+0x", absl::Hex(address - begin)));
    return frame;
  }
  frame.set_function(FrameName(name));
  Dwfl_Line* const line = dwfl_module_getsrc(module, address);
  if (line == nullptr) return frame;
  int number = 0;
  Dwarf_Addr line_begin = 0;
  const char* const file = dwfl_lineinfo(line, &line_begin, &number, nullptr, nullptr, nullptr);
  // Where libdw does not find the compilation unit of an address, as in programs of Go, it gives another function's
  // line.
  if (file != nullptr && number > 0 && line_begin >= address - offset) {
    frame.set_file(Plain(file, kMostPathBytes));
    frame.set_line(static_cast<uint32_t>(number));
  }
  return frame;
}

}  // namespace farandole::stacks
