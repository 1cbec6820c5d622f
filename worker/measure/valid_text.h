#ifndef FARANDOLE_WORKER_MEASURE_VALID_TEXT_H_
#define FARANDOLE_WORKER_MEASURE_VALID_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// `text` with '?' for each byte that is not part of a whole UTF-8 sequence, and for control characters: a message with
// others could not be read, and a cut text may end within a sequence.
inline std::string ValidText(absl::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned lead = byte(at);
    const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    bool is_whole = length != 0 && lead >= 0x20 && lead != 0x7F;
    for (size_t i = 1; i < length; ++i) is_whole = is_whole && (byte(at + i) & 0xC0) == 0x80;
    // Longer than needed, a surrogate, or beyond Unicode.
    if (lead == 0xE0) is_whole = is_whole && byte(at + 1) >= 0xA0;
    if (lead == 0xED) is_whole = is_whole && byte(at + 1) < 0xA0;
    if (lead == 0xF0) is_whole = is_whole && byte(at + 1) >= 0x90;
    if (lead == 0xF4) is_whole = is_whole && byte(at + 1) < 0x90;
    is_whole ? valid.append(text.data() + at, length) : valid.append(1, '?');
    at += is_whole ? length : 1;
  }
  return valid;
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_VALID_TEXT_H_
