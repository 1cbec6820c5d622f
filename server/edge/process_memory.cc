#include "server/edge/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

// gRPC's part of the memory.
constexpr double kBufferShare = 0.4;
constexpr uint64_t kLeastBufferBytes = 64 << 20;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

uint64_t MemoryOfProcess() {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const uint64_t machine = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, GroupMemoryLimit(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

uint64_t BufferBytesOfProcess() {
  return std::max(kLeastBufferBytes, static_cast<uint64_t>(kBufferShare * static_cast<double>(MemoryOfProcess())));
}

uint64_t GroupMemoryLimit(const std::string& self_cgroup, const std::string& root) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (absl::string_view line : absl::StrSplit(self_cgroup, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;
    std::string group(absl::StripSuffix(line, "/"));
    while (true) {
      uint64_t limit = 0;
      const std::string text = ReadText(absl::StrCat(root, group, "/memory.max"));
      if (absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &limit)) least = std::min(least, limit);
      if (group.empty()) break;
      group.erase(group.rfind('/'));
    }
  }
  return least;
}

}  // namespace farandole
