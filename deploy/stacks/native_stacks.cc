#include "deploy/stacks/native_stacks.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/quiet_thread.h"
#include "base/steady_time.h"
#include "base/text/plain_text.h"
#include "base/text/shown_text.h"
#include "deploy/stacks/tracer.h"
#include "deploy/stacks/unwinder.h"

namespace farandole::stacks {
namespace {

constexpr size_t kMostThreads = 64;
// Between looks for threads that have stopped too late.
constexpr std::chrono::milliseconds kLateDistance(10);

// Shared by the caller and the thread that finds names, of which each may be the last to need it.
struct Naming {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<v1::ThreadStack> threads;
  std::string failure;
  bool is_over = false;
};

void FindNames(pid_t pid, const std::vector<ThreadSnapshot>& snapshots, Naming* naming) {
  const absl::StatusOr<std::unique_ptr<Unwinder>> unwinder = Unwinder::Open(pid);
  if (!unwinder.ok()) {
    const std::lock_guard<std::mutex> lock(naming->mutex);
    naming->failure = std::string(unwinder.status().message());
    return;
  }
  for (const ThreadSnapshot& snapshot : snapshots) {
    v1::ThreadStack thread;
    thread.set_tid(static_cast<uint32_t>(snapshot.tid));
    thread.set_name(snapshot.name);
    thread.set_why_no_native(snapshot.why_not);
    for (const uint64_t address : (*unwinder)->Unwind(snapshot))
      *thread.add_native_frames() = (*unwinder)->Describe(address);
    const std::lock_guard<std::mutex> lock(naming->mutex);
    naming->threads.push_back(std::move(thread));
  }
}

std::string ReadWord(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, key)) return std::string(absl::StripAsciiWhitespace(rest));
  }
  return "";
}

// Numbers of "Uid:", the real one first.
std::string RealUser(const std::string& uids) { return uids.substr(0, uids.find('\t')); }

v1::NativeStacks Without(std::string why) {
  v1::NativeStacks none;
  none.set_about(std::move(why));
  return none;
}

bool HaveSameNames(const v1::ThreadStack& a, const v1::ThreadStack& b) {
  if (a.native_frames_size() != b.native_frames_size() || a.why_no_native() != b.why_no_native()) return false;
  for (int i = 0; i < a.native_frames_size(); ++i) {
    if (a.native_frames(i).function() != b.native_frames(i).function()) return false;
  }
  return true;
}

std::string ShowThread(const v1::ThreadStack& thread, const std::vector<std::string>& alike) {
  std::string text = absl::StrCat("\nthread ", thread.tid(), " ", WithoutControls(thread.name()), "\n");
  if (!alike.empty()) absl::StrAppend(&text, "  and the same: ", absl::StrJoin(alike, ", "), "\n");
  if (!thread.why_no_native().empty()) absl::StrAppend(&text, "  ", thread.why_no_native(), "\n");
  for (const v1::StackFrame& frame : thread.native_frames()) {
    const std::string place = frame.line() > 0 ? absl::StrCat(frame.file(), ":", frame.line()) : frame.module();
    absl::StrAppend(&text, "  ", WithoutControls(frame.function()), place.empty() ? "" : " (", WithoutControls(place),
                    place.empty() ? "" : ")", "\n");
  }
  return text;
}

}  // namespace

TraceFacts ReadTraceFacts(pid_t pid, int error) {
  TraceFacts facts;
  const std::string folder = absl::StrCat("/proc/", pid);
  const std::string status = folder + "/status";
  facts.pid = pid;
  facts.error = error;
  facts.state = ReadWord(status, "State:");
  if (!absl::SimpleAtoi(ReadWord(status, "TracerPid:"), &facts.tracer)) facts.tracer = 0;
  facts.tracer_name = Plain(ReadWord(absl::StrCat("/proc/", facts.tracer, "/status"), "Name:"));
  pid_t group = 0;
  facts.is_self = absl::SimpleAtoi(ReadWord(status, "Tgid:"), &group) && group == getpid();
  const std::string user = RealUser(ReadWord(status, "Uid:"));
  facts.is_of_other_user = user != RealUser(ReadWord("/proc/self/status", "Uid:"));
  struct stat owner = {};
  // The kernel gives the files about such a process to root.
  facts.is_hidden = stat(absl::StrCat(folder, "/maps").c_str(), &owner) == 0 && user != absl::StrCat(owner.st_uid);
  std::string scope;
  std::getline(std::ifstream("/proc/sys/kernel/yama/ptrace_scope"), scope);
  if (!absl::SimpleAtoi(scope, &facts.yama_scope)) facts.yama_scope = 0;
  return facts;
}

std::string WhyNotTraced(const TraceFacts& facts) {
  const std::string process = absl::StrCat("process ", facts.pid);
  if (facts.state.empty()) return absl::StrCat("there is no ", process);
  if (facts.state[0] == 'Z' || facts.state[0] == 'X') return absl::StrCat(process, " has ended");
  if (facts.is_self) return "a process cannot read its own stacks in this way";
  if (facts.error == ESRCH) return absl::StrCat(process, " is ending");
  if (facts.tracer != 0) {
    return absl::StrCat(process, " is traced by process ", facts.tracer, " (", facts.tracer_name,
                        "), as by a debugger, and the kernel allows one tracer only");
  }
  const std::string refused = absl::StrCat("the kernel does not let process ", getpid(), " trace ", process, ": ");
  if (facts.yama_scope >= 3)
    return absl::StrCat(refused,
                        "kernel.yama.ptrace_scope is 3, which forbids it to all until the machine is started anew");
  if (facts.yama_scope == 2) {
    return absl::StrCat(refused,
                        "kernel.yama.ptrace_scope is 2; CAP_SYS_PTRACE, or 1 in place of 2 by sysctl, would "
                        "allow it");
  }
  if (facts.is_of_other_user)
    return absl::StrCat(refused, "it is another user's; that user or root (CAP_SYS_PTRACE) may read its stacks");
  if (facts.is_hidden) {
    return absl::StrCat(refused,
                        "it has changed its user or has called prctl(PR_SET_DUMPABLE, 0); root "
                        "(CAP_SYS_PTRACE) may read its stacks");
  }
  if (facts.yama_scope == 1) {
    return absl::StrCat(refused,
                        "kernel.yama.ptrace_scope is 1, by which only a process's ancestors may; root "
                        "(CAP_SYS_PTRACE), or sysctl kernel.yama.ptrace_scope=0, would allow it");
  }
  return absl::StrCat(refused, strerror(facts.error), "; in a container CAP_SYS_PTRACE may be missing (docker run ",
                      "--cap-add=SYS_PTRACE), or its seccomp profile forbids ptrace");
}

v1::NativeStacks ReadNativeStacks(pid_t pid, absl::Duration patience, pid_t skipped) {
  if (!CanReadRegisters()) return Without("native stacks are read on x86-64 processors only");
  const absl::Time deadline = SteadyNow() + patience;
  std::vector<pid_t> tids = ThreadsOf(pid, kMostThreads + 1);
  tids.erase(std::remove(tids.begin(), tids.end(), skipped), tids.end());
  if (tids.size() > kMostThreads) tids.pop_back();
  TraceFacts facts = ReadTraceFacts(pid, ESRCH);
  if (tids.empty() || facts.is_self) return Without(WhyNotTraced(facts));
  Tracer tracer;
  // shared: with the thread that finds names.
  const auto snapshots = std::make_shared<std::vector<ThreadSnapshot>>();
  for (const pid_t tid : tids) {
    snapshots->push_back(tracer.Take(pid, tid));
    const int refusal = snapshots->front().refusal;
    if (refusal != 0 && snapshots->size() == 1) return Without(WhyNotTraced(ReadTraceFacts(pid, refusal)));
    // Names need the other half.
    if (SteadyNow() >= deadline - patience / 2) break;
  }
  absl::Duration longest;
  for (const ThreadSnapshot& snapshot : *snapshots) longest = std::max(longest, snapshot.stopped);

  const auto naming = std::make_shared<Naming>();
  const bool runs = DetachQuietly([pid, snapshots, naming] {
    FindNames(pid, *snapshots, naming.get());
    const std::lock_guard<std::mutex> lock(naming->mutex);
    naming->is_over = true;
    naming->changed.notify_all();
  });
  if (!runs) return Without("the system has no room for a thread more");
  std::unique_lock<std::mutex> lock(naming->mutex);
  while (!naming->is_over && SteadyNow() < deadline) {
    naming->changed.wait_for(lock, kLateDistance);
    tracer.ReleaseLate();
  }
  if (!naming->failure.empty()) return Without(naming->failure);
  v1::NativeStacks stacks;
  *stacks.mutable_threads() = {naming->threads.begin(), naming->threads.end()};
  stacks.set_longest_stop_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(longest)));
  stacks.set_about(absl::StrFormat("read by ptrace, which stopped each thread for %.2f ms at most",
                                   absl::ToDoubleMilliseconds(longest)));
  if (stacks.threads_size() == 0) {
    return Without(
        absl::StrCat("the functions of process ", pid, " were not found within ", absl::FormatDuration(patience)));
  }
  if (static_cast<size_t>(stacks.threads_size()) < tids.size()) {
    stacks.mutable_about()->append(absl::StrCat("; the other ", tids.size() - naming->threads.size(),
                                                " threads' functions were not found within ",
                                                absl::FormatDuration(patience)));
  }
  return stacks;
}

std::string ShowNativeStacks(pid_t pid, const v1::NativeStacks& stacks) {
  std::string text = absl::StrCat("process ", pid, ": ", stacks.about(), "\n");
  std::vector<bool> is_shown(static_cast<size_t>(stacks.threads_size()));
  for (int i = 0; i < stacks.threads_size(); ++i) {
    if (is_shown[static_cast<size_t>(i)]) continue;
    std::vector<std::string> alike;
    for (int other = i + 1; other < stacks.threads_size(); ++other) {
      if (is_shown[static_cast<size_t>(other)] || !HaveSameNames(stacks.threads(i), stacks.threads(other))) continue;
      is_shown[static_cast<size_t>(other)] = true;
      alike.push_back(absl::StrCat(stacks.threads(other).tid()));
    }
    text += ShowThread(stacks.threads(i), alike);
  }
  return text;
}

}  // namespace farandole::stacks
