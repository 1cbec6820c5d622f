#ifndef FARANDOLE_BASE_TEXT_PLAIN_TEXT_H_
#define FARANDOLE_BASE_TEXT_PLAIN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// `text` without control characters and broken UTF-8 (each byte becomes '?'), cut to `limit` bytes (then it ends in
// "...").
std::string Plain(absl::string_view text, size_t limit = 200);

// As Plain, uncut: for messages, which cannot hold other bytes. A cut text may end within a sequence.
inline std::string ValidText(absl::string_view text) { return Plain(text, absl::string_view::npos); }

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_PLAIN_TEXT_H_
