#ifndef FARANDOLE_DEPLOY_STACKS_UNWINDER_H_
#define FARANDOLE_DEPLOY_STACKS_UNWINDER_H_

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/stacks/tracer.h"
#include "farandole/v1/flight.pb.h"

namespace farandole::stacks {

// Finds the calls on a thread's stack, and their names, by the files that its process has mapped. It works on
// snapshots, and stops no thread. One thread at a time. It looks for debug information in the files and in
// /usr/lib/debug; where DEBUGINFOD_URLS is set, libdw would ask servers as well.
class Unwinder {
 public:
  // INTERNAL: the process's files cannot be read; the sentence says why.
  static absl::StatusOr<std::unique_ptr<Unwinder>> Open(pid_t pid);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // Addresses of calls, the innermost first; at most 100.
  std::vector<uint64_t> Unwind(const ThreadSnapshot& snapshot);
  // The function at an address that Unwind has given.
  const v1::StackFrame& Describe(uint64_t address);

 private:
  explicit Unwinder(pid_t pid) : pid_(pid) {}
  static pid_t NextThread(Dwfl* dwfl, void* self, void** thread);
  static bool GetThread(Dwfl* dwfl, pid_t tid, void* self, void** thread);
  static bool ReadMemory(Dwfl* dwfl, Dwarf_Addr address, Dwarf_Word* word, void* self);
  static bool SetRegisters(Dwfl_Thread* thread, void* self);
  static int TakeFrame(Dwfl_Frame* frame, void* self);
  v1::StackFrame Look(uint64_t address);

  const pid_t pid_;
  Dwfl* dwfl_ = nullptr;
  // Of the call of Unwind that goes on.
  const ThreadSnapshot* snapshot_ = nullptr;
  std::vector<uint64_t> addresses_;
  std::unordered_map<uint64_t, v1::StackFrame> known_;
};

}  // namespace farandole::stacks

#endif  // FARANDOLE_DEPLOY_STACKS_UNWINDER_H_
