#ifndef FARANDOLE_BASE_TEXT_UTF8_TEXT_H_
#define FARANDOLE_BASE_TEXT_UTF8_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Bytes of the character of UTF-8 that begins at `at`; 0: none does (RFC 3629).
size_t CharacterBytes(absl::string_view text, size_t at);

// Texts that travel in fields of type string, which hold UTF-8 and nothing else: a receiver refuses the
// whole message.
bool IsUtf8(absl::string_view text);

// OK, or INVALID_ARGUMENT with the text escaped: `what` "\xff\xfe" is not UTF-8.
absl::Status CheckUtf8(absl::string_view what, absl::string_view text);

// `text` with U+FFFD in place of each byte that belongs to no character.
std::string ReplaceInvalidUtf8(absl::string_view text);

// The first `limit` bytes at most, without a part of a character at their end.
absl::string_view CutUtf8(absl::string_view text, size_t limit);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_UTF8_TEXT_H_
