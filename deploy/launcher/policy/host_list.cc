#include "deploy/launcher/policy/host_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole::launcher {
namespace {

constexpr int kMaxSlots = 65536;
constexpr size_t kMaxHosts = 4096;
constexpr size_t kMaxHostBytes = 255;

// Accepts the characters of host names, addresses and USER@HOST. Nothing else reaches ssh's command line, no option
// either.
bool IsHost(absl::string_view host) {
  if (host.empty() || host.size() > kMaxHostBytes || host[0] == '-') return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._-@:%", c);
  });
}

// Appends one entry; `where` names its place in errors.
absl::Status Append(absl::string_view host, absl::string_view slots, const std::string& where,
                    std::vector<HostSlots>* hosts) {
  HostSlots entry;
  entry.host = std::string(host);
  if (!IsHost(host)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": '", host, "' is no host's name or address"));
  }
  if (!absl::SimpleAtoi(slots, &entry.slots) || entry.slots < 1 || entry.slots > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": a host has 1 to ", kMaxSlots, " slots, not '", slots, "'"));
  }
  const bool is_known =
      std::any_of(hosts->begin(), hosts->end(), [&](const HostSlots& known) { return known.host == entry.host; });
  if (is_known) return absl::InvalidArgumentError(absl::StrCat(where, ": host ", host, " is named twice"));
  if (hosts->size() == kMaxHosts) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": at most ", kMaxHosts, " hosts can be named"));
  }
  hosts->push_back(std::move(entry));
  return absl::OkStatus();
}

// Appends "HOST:SLOTS", or "[ADDRESS]:SLOTS".
absl::Status AppendEntry(absl::string_view entry, const std::string& where, std::vector<HostSlots>* hosts) {
  const size_t colon = entry.rfind(':');
  if (colon == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": a host is written NAME:SLOTS, not '", entry, "'"));
  }
  absl::string_view host = entry.substr(0, colon);
  const bool is_bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (!is_bracketed && absl::StrContains(host, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": an IPv6 address stands in brackets, [ADDRESS]:SLOTS, not '", entry, "'"));
  }
  return Append(host, entry.substr(colon + 1), where, hosts);
}

bool IsLoopback(const std::string& host) { return absl::StartsWith(host, "127.") || host == "::1"; }

}  // namespace

absl::StatusOr<std::vector<HostSlots>> ParseHosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  const std::string where = absl::StrCat("--hosts ", text);
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    if (absl::Status appended = AppendEntry(entry, where, &hosts); !appended.ok()) return appended;
  }
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ParseHostfile(const std::string& text, const std::string& path) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat("--hostfile ", path, ", line ", ++number);
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    absl::string_view slots = words.size() == 2 ? words[1] : "";
    if (!absl::ConsumePrefix(&slots, "slots=")) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": a host is written 'NAME slots=N', not '", line, "'"));
    }
    if (absl::Status appended = Append(words[0], slots, where, &hosts); !appended.ok()) return appended;
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat("--hostfile ", path, " names no host"));
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ParseDiscovered(const std::string& text, int default_slots) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat("line ", ++number, " of its output");
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    const bool has_slots = absl::StrContains(line, ':') && !absl::EndsWith(line, "]");
    const absl::Status appended = has_slots ? AppendEntry(line, where, &hosts)
                                            : AppendEntry(absl::StrCat(line, ":", default_slots), where, &hosts);
    if (!appended.ok()) return appended;
  }
  return hosts;
}

int CountSlots(const std::vector<HostSlots>& hosts) {
  int sum = 0;
  for (const HostSlots& host : hosts) sum = std::min(sum + host.slots, kMaxSlots);
  return sum;
}

void MarkThisMachine(const std::string& own_name, std::vector<HostSlots>* hosts) {
  std::set<std::string> own = {"localhost", own_name, own_name.substr(0, own_name.find('.'))};
  const auto loopbacks =
      std::count_if(hosts->begin(), hosts->end(), [](const HostSlots& host) { return IsLoopback(host.host); });
  if (loopbacks == 1) own.insert({"127.0.0.1", "::1"});
  for (HostSlots& host : *hosts) host.is_here = own.count(host.host) > 0;
}

CrossPlace FindCrossPlace(const std::vector<HostShare>& shares, const std::string& host, int local_rank) {
  CrossPlace place;
  bool is_before = true;
  for (const HostShare& share : shares) {
    is_before = is_before && share.host != host;
    if (share.count <= local_rank) continue;
    ++place.size;
    if (is_before) ++place.rank;
  }
  return place;
}

std::vector<HostShare> SpreadWorkers(const std::vector<HostSlots>& hosts, int workers) {
  std::vector<HostShare> shares;
  int first = 0;
  for (const HostSlots& host : hosts) {
    const int count = std::min(host.slots, workers - first);
    if (count <= 0) break;
    shares.push_back(HostShare{host.host, first, count, host.is_here});
    first += count;
  }
  return shares;
}

}  // namespace farandole::launcher
