#ifndef FARANDOLE_BASE_TEXT_PERCENT_TEXT_H_
#define FARANDOLE_BASE_TEXT_PERCENT_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// "a%20b" for "a b", as RFC 3986 has it: all but letters, digits, '-', '.', '_' and '~' are escaped.
std::string PercentEncode(absl::string_view text);
// The reverse; nullopt: a '%' begins no escape.
std::optional<std::string> PercentDecode(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_PERCENT_TEXT_H_
