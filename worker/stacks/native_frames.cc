#include "worker/stacks/native_frames.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

constexpr int kMostThreads = 64;
constexpr int kMostFrames = 100;
constexpr size_t kMostBytes = 64 << 10;
// The coordinator takes no longer texts.
constexpr size_t kMostTextBytes = 500;
constexpr size_t kMostNameBytes = 64;

// The interpreter's function that runs Python's code, of all versions.
bool RunsPython(const v1::StackFrame& frame) { return absl::StrContains(frame.function(), "PyEval_EvalFrame"); }

v1::StackFrame Bounded(const v1::StackFrame& frame) {
  v1::StackFrame bounded;
  bounded.set_function(Plain(frame.function(), kMostTextBytes));
  bounded.set_file(Plain(frame.file(), kMostTextBytes));
  bounded.set_line(frame.line());
  bounded.set_module(Plain(frame.module(), kMostTextBytes));
  return bounded;
}

std::string KeyOf(const v1::ThreadStack& thread) {
  std::string key = thread.why_no_native();
  for (const v1::StackFrame& frame : thread.native_frames())
    absl::StrAppend(&key, "\n", frame.module(), "\n", frame.function());
  return key;
}

// Appends native frames until the budget is used up.
class FrameBudget {
 public:
  void Spend(const v1::ThreadStack& from, bool only_above_python, v1::ThreadStack* to) {
    to->set_why_no_native(Plain(from.why_no_native(), kMostTextBytes));
    for (const v1::StackFrame& frame : from.native_frames()) {
      if ((only_above_python && RunsPython(frame)) || to->native_frames_size() == kMostFrames) return;
      v1::StackFrame bounded = Bounded(frame);
      const size_t bytes = bounded.ByteSizeLong();
      if (bytes > left_) return;
      left_ -= bytes;
      *to->add_native_frames() = std::move(bounded);
    }
  }

 private:
  size_t left_ = kMostBytes;
};

}  // namespace

void AddNativeStacks(const v1::NativeStacks& native, uint32_t pid, v1::Evidence* evidence) {
  evidence->set_about_native_stacks(Plain(native.about(), kMostTextBytes));
  FrameBudget budget;
  std::map<uint32_t, const v1::ThreadStack*> by_tid;
  for (const v1::ThreadStack& thread : native.threads()) by_tid[thread.tid()] = &thread;
  std::set<uint32_t> added;
  for (v1::ThreadStack& thread : *evidence->mutable_threads()) {
    // Without the interpreter's lock nothing tells a thread's number but the main thread's.
    if (thread.tid() == 0 && thread.name() == "MainThread") thread.set_tid(pid);
    const auto found = by_tid.find(thread.tid());
    if (found == by_tid.end() || !added.insert(thread.tid()).second) continue;
    budget.Spend(*found->second, /*only_above_python=*/true, &thread);
  }
  std::map<std::string, int> places;
  for (const v1::ThreadStack& from : native.threads()) {
    if (added.count(from.tid()) > 0) continue;
    const auto [place, is_new] = places.try_emplace(KeyOf(from), evidence->threads_size());
    if (!is_new) {
      v1::ThreadStack* const alike = evidence->mutable_threads(place->second);
      alike->set_alike(alike->alike() + 1);
      continue;
    }
    if (evidence->threads_size() >= kMostThreads) break;
    v1::ThreadStack* const thread = evidence->add_threads();
    thread->set_name(Plain(from.name(), kMostNameBytes));
    thread->set_tid(from.tid());
    budget.Spend(from, /*only_above_python=*/false, thread);
  }
}

}  // namespace farandole
