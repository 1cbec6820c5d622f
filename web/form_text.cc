#include "web/form_text.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text/percent_text.h"

namespace farandole {
namespace {

// Text that is not encoded well stays as it is.
std::string Decode(absl::string_view text) {
  const std::string spaced = absl::StrReplaceAll(text, {{"+", " "}});
  return PercentDecode(spaced).value_or(spaced);
}

}  // namespace

std::vector<std::string> QueryValues(absl::string_view query, absl::string_view name) {
  std::vector<std::string> values;
  for (const absl::string_view field : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(field, absl::MaxSplits('=', 1));
    if (parts.first == name) values.push_back(Decode(parts.second));
  }
  return values;
}

std::string QueryValue(absl::string_view query, absl::string_view name) {
  const std::vector<std::string> values = QueryValues(query, name);
  return values.empty() ? "" : values.front();
}

}  // namespace farandole
