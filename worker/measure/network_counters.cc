#include "worker/measure/network_counters.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

// Columns of /proc/net/dev behind the interface's name.
constexpr size_t kReceivedBytes = 0;
constexpr size_t kSentBytes = 8;

std::string ReadText(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

uint64_t NumberAt(const std::vector<absl::string_view>& fields, size_t at) {
  uint64_t number = 0;
  return at < fields.size() && absl::SimpleAtoi(fields[at], &number) ? number : 0;
}

}  // namespace

NetworkCounters NetworkCounters::Read() { return Parse(ReadText("/proc/net/dev"), ReadText("/proc/net/snmp")); }

NetworkCounters NetworkCounters::Parse(absl::string_view dev, absl::string_view snmp) {
  NetworkCounters counters;
  for (const absl::string_view line : absl::StrSplit(dev, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (parts.second.empty() || name == "lo") continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(parts.second, ' ', absl::SkipEmpty());
    counters.received_bytes += NumberAt(fields, kReceivedBytes);
    counters.sent_bytes += NumberAt(fields, kSentBytes);
  }
  // A line of names, then one of numbers, each behind "Tcp:".
  std::vector<absl::string_view> names;
  for (absl::string_view line : absl::StrSplit(snmp, '\n')) {
    if (!absl::ConsumePrefix(&line, "Tcp:")) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (names.empty()) {
      names = fields;
      continue;
    }
    for (size_t at = 0; at < names.size(); ++at) {
      if (names[at] == "RetransSegs") counters.retransmits = NumberAt(fields, at);
    }
  }
  return counters;
}

}  // namespace farandole
