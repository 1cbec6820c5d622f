#include "base/text/part_name.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

// Together with the dot they fill the 128 bytes of a job's name.
constexpr size_t kMostMemberBytes = 40;
constexpr size_t kMostParentBytes = 87;
constexpr size_t kMostNameBytes = 128;
// As many workers as a launch starts.
constexpr int kMostMembers = 65536;

// "" if they are not evenly spaced.
std::string NameRange(const std::vector<int>& members) {
  const int step = members.size() < 2 ? 0 : members[1] - members[0];
  if (step <= 0) return "";
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != step) return "";
  }
  return absl::StrCat(members.front(), "to", members.back(), step == 1 ? "" : absl::StrCat("by", step));
}

bool ReadNumber(absl::string_view text, int* number) {
  return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) && absl::SimpleAtoi(text, number) &&
         *number < kMostMembers;
}

bool ReadRange(absl::string_view text, std::vector<int>* members) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits("to", 1));
  const std::vector<absl::string_view> last = absl::StrSplit(ends.second, absl::MaxSplits("by", 1));
  int from = 0;
  int to = 0;
  int step = 1;
  if (!ReadNumber(ends.first, &from) || !ReadNumber(last.front(), &to) || from >= to) return false;
  if (last.size() > 1 && (!ReadNumber(last.back(), &step) || step < 1)) return false;
  for (int member = from; member <= to; member += step) members->push_back(member);
  return true;
}

bool ReadList(absl::string_view text, std::vector<int>* members) {
  for (const absl::string_view member : absl::StrSplit(text, '-')) {
    if (!ReadNumber(member, &members->emplace_back())) return false;
  }
  return true;
}

bool IsHash(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits("of", 1));
  int count = 0;
  return ReadNumber(parts.first, &count) && parts.second.size() == 16;
}

}  // namespace

std::string NameMembers(const std::vector<int>& members) {
  const std::string all = absl::StrJoin(members, "-");
  if (all.size() <= kMostMemberBytes) return all;
  if (std::string range = NameRange(members); !range.empty()) return range;
  // FNV-1a.
  uint64_t hash = 14695981039346656037u;
  for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return absl::StrCat(members.size(), "of", absl::Hex(hash, absl::kZeroPad16));
}

std::string NamePart(const std::string& job, const std::vector<int>& members) {
  return absl::StrCat(job.substr(0, kMostParentBytes), ".", NameMembers(members));
}

std::optional<std::vector<int>> ReadPart(const std::string& job, absl::string_view name) {
  // Of a longer list, reading alone would take long.
  if (name.size() > kMostNameBytes) return std::nullopt;
  if (!absl::ConsumePrefix(&name, job.substr(0, kMostParentBytes)) || !absl::ConsumePrefix(&name, ".")) {
    return std::nullopt;
  }
  std::vector<int> members;
  if (ReadList(name, &members)) return members;
  members.clear();
  if (ReadRange(name, &members)) return members;
  members.clear();
  if (IsHash(name)) return members;
  return std::nullopt;
}

}  // namespace farandole
