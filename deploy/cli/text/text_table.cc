#include "deploy/cli/text/text_table.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {

void PrintTable(const std::vector<TextColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                std::ostream& out) {
  std::vector<std::vector<std::string>> lines(1);
  for (const TextColumn& column : columns) lines[0].push_back(column.title);
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(columns.size());
  for (std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < columns.size(); ++i) {
      line[i] = WithoutControls(std::move(line[i]));
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string padding =
          i + 1 < columns.size() || columns[i].right ? std::string(widths[i] - line[i].size(), ' ') : "";
      out << (i == 0 ? "" : "  ") << (columns[i].right ? padding : "") << line[i] << (columns[i].right ? "" : padding);
    }
    out << "\n";
  }
}

std::string ShowSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string ShowAge(absl::Duration age) {
  const int64_t seconds = std::max<int64_t>(absl::ToInt64Seconds(age), 0);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 2 * 3600) return absl::StrCat(seconds / 60, " min");
  if (seconds < 48 * 3600) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " d");
}

}  // namespace farandole
