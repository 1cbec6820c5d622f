#include "server/job/evidence/stack_groups.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// "": nothing is known of it.
std::string KeyOf(const v1::ThreadStack& thread) {
  std::string key;
  for (const v1::StackFrame& frame : thread.frames())
    absl::StrAppend(&key, frame.file(), "\n", frame.function(), "\n", frame.line(), "\n");
  if (!key.empty()) return key;
  key = thread.why_no_native();
  for (int at = thread.native_frames_size() - 1; at >= 0; --at) {
    const v1::StackFrame& frame = thread.native_frames(at);
    absl::StrAppend(&key, "\n", frame.module(), "\n", frame.function());
    if (absl::StartsWith(frame.module(), "libfarandole")) break;
  }
  return key;
}

}  // namespace

std::vector<v1::StackGroup> GroupStacks(const std::map<uint32_t, v1::Evidence>& evidence) {
  std::map<std::string, v1::StackGroup> by_stack;
  for (const auto& [rank, one] : evidence) {
    if (one.threads_size() == 0) continue;
    const std::string key = KeyOf(one.threads(0));
    if (key.empty()) continue;
    v1::StackGroup& group = by_stack[key];
    if (group.ranks_size() == 0) *group.mutable_frames() = one.threads(0).frames();
    if (group.native_frames_size() == 0) *group.mutable_native_frames() = one.threads(0).native_frames();
    group.add_ranks(rank);
  }
  std::vector<v1::StackGroup> groups;
  for (auto& [key, group] : by_stack) groups.push_back(std::move(group));
  absl::c_sort(groups, [](const v1::StackGroup& a, const v1::StackGroup& b) {
    return a.ranks_size() != b.ranks_size() ? a.ranks_size() > b.ranks_size() : a.ranks(0) < b.ranks(0);
  });
  const bool is_dominant = !groups.empty() && (groups.size() == 1 || groups[0].ranks_size() > groups[1].ranks_size());
  if (is_dominant) groups[0].set_is_dominant(true);
  return groups;
}

}  // namespace farandole
