#include "web/form_text.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

std::string Decode(absl::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    value += is_escape ? absl::HexStringToBytes(text.substr(i + 1, 2)) : std::string(1, text[i] == '+' ? ' ' : text[i]);
    i += is_escape ? 2 : 0;
  }
  return value;
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
