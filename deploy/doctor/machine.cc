#include "deploy/doctor/machine.h"

#include <gnu/libc-version.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/usable_cores.h"

namespace farandole::doctor {
namespace {

// A launcher holds some ten descriptors for each worker.
constexpr uint64_t kEnoughFiles = 1024;
// Workers start some ten threads each, frameworks many more.
constexpr uint64_t kEnoughProcesses = 1024;
constexpr uint64_t kEnoughDisk = uint64_t{1} << 30;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ShowLimit(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit); }

}  // namespace

Finding ReadFeatures(const std::string& cpuinfo) {
  std::set<std::string> flags;
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "flags") || !flags.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    for (const absl::string_view flag : absl::StrSplit(parts.second, ' ')) flags.emplace(flag);
  }
  const auto has = [&](std::initializer_list<const char*> wanted) {
    return std::all_of(wanted.begin(), wanted.end(), [&](const char* flag) { return flags.count(flag) > 0; });
  };
  if (has({"avx512f", "avx512bw", "avx512dq", "avx512vl", "f16c"}))
    return Ok("features", "AVX-512: reductions at their best");
  if (has({"avx2", "f16c"})) return Ok("features", "AVX2 and F16C");
  return Warn("features", "neither AVX-512 nor AVX2 with F16C",
              "reductions run on baseline code, some times slower; in a virtual machine, pass the host's processor on");
}

Findings CheckMachine() {
  Findings findings;
  utsname names = {};
  uname(&names);
  findings.push_back(Ok("kernel", absl::StrCat(names.sysname, " ", names.release, " ", names.machine, ", glibc ",
                                               gnu_get_libc_version())));
  findings.push_back(
      Ok("cores", absl::StrCat(UsableCores(), " for this process, ", sysconf(_SC_NPROCESSORS_ONLN), " in all")));
  findings.push_back(ReadFeatures(ReadText("/proc/cpuinfo")));
  return findings;
}

std::optional<uint64_t> MostProcesses(const std::string& self_cgroup, const std::string& root) {
  std::string path;
  for (absl::string_view line : absl::StrSplit(self_cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) path = std::string(line);
  }
  std::optional<uint64_t> most;
  while (true) {
    uint64_t limit = 0;
    if (absl::SimpleAtoi(ReadText(absl::StrCat(root, path, "/pids.max")), &limit))
      most = std::min(limit, most.value_or(limit));
    if (path.find_first_not_of('/') == std::string::npos) return most;
    path.resize(path.rfind('/'));
  }
}

Findings CheckLimits() {
  Findings findings;
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::string open_files = absl::StrCat(ShowLimit(files.rlim_cur), " open files");
  findings.push_back(
      files.rlim_cur >= kEnoughFiles
          ? Ok("limits", open_files)
          : Warn("limits", open_files,
                 absl::StrCat("ulimit -n ", kEnoughFiles, " or more: a launcher holds ten for each worker")));
  rlimit locked = {};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  findings.push_back(Ok("limits", absl::StrCat(ShowLimit(locked.rlim_cur), " bytes of locked memory")));
  rlimit processes = {};
  getrlimit(RLIMIT_NPROC, &processes);
  const std::optional<uint64_t> group = MostProcesses(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup");
  const uint64_t most = std::min<uint64_t>(group.value_or(RLIM_INFINITY), processes.rlim_cur);
  const std::string threads = absl::StrCat(ShowLimit(most), " processes and threads");
  findings.push_back(
      most >= kEnoughProcesses
          ? Ok("limits", threads)
          : Warn("limits", threads,
                 absl::StrCat("raise pids.max of the control group, or ulimit -u, to ", kEnoughProcesses, " or more")));
  return findings;
}

Findings CheckStateHome(const StateHome& state_home) {
  if (!state_home.remark.empty()) return {Warn("state", state_home.remark, "")};
  const std::string wanted = absl::StrCat(state_home.path, "/farandole");
  // The part of it that exists.
  std::filesystem::path part = wanted;
  std::error_code error;
  while (!std::filesystem::exists(part, error) && part.has_relative_path()) part = part.parent_path();
  struct statvfs disk = {};
  if (statvfs(part.c_str(), &disk) != 0) return {Warn("state", absl::StrCat(wanted, ": ", strerror(errno)), "")};
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::string text = absl::StrCat(wanted, " has ", free_bytes >> 20, " MiB free");
  if (free_bytes < kEnoughDisk) return {Warn("state", text, "free some, or set XDG_STATE_HOME to another disk")};
  return {Ok("state", text)};
}

}  // namespace farandole::doctor
