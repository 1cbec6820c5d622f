#include "base/text/rank_text.h"

#include "absl/strings/str_cat.h"

namespace farandole {

std::string ShowRanks(absl::Span<const uint32_t> ascending, size_t most_runs) {
  std::string text = ascending.size() == 1 ? "rank " : "ranks ";
  size_t i = 0;
  for (size_t runs = 0; i < ascending.size() && runs < most_runs; ++runs) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (runs > 0) text += ",";
    absl::StrAppend(&text, ascending[i]);
    if (last > i) absl::StrAppend(&text, last == i + 1 ? "," : "-", ascending[last]);
    i = last + 1;
  }
  if (i < ascending.size()) absl::StrAppend(&text, " and ", ascending.size() - i, " more");
  return text;
}

}  // namespace farandole
