#include "base/text/plain_text.h"

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Bytes of the UTF-8 sequence that starts `text`; 0 if it is broken.
size_t SequenceLength(absl::string_view text) {
  const unsigned char lead = static_cast<unsigned char>(text[0]);
  size_t length = 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) length = 2;
  if (lead >= 0xE0 && lead < 0xF0) length = 3;
  if (lead >= 0xF0 && lead < 0xF5) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::string Plain(absl::string_view text, size_t limit) {
  std::string plain;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F);
    const absl::string_view piece = length == 0 || control ? absl::string_view("?") : text.substr(0, length);
    if (plain.size() + piece.size() > limit) return absl::StrCat(plain, "...");
    plain.append(piece.data(), piece.size());
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return plain;
}

}  // namespace farandole
