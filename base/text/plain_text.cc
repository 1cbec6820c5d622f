#include "base/text/plain_text.h"

#include "absl/strings/str_cat.h"
#include "base/text/utf8_text.h"

namespace farandole {
namespace {

// Whether a terminal obeys this sequence, or shows it and what follows in another order: the controls of ASCII, those
// of ISO 6429 from U+0080 to U+009F, of which U+009B begins a command as ESC [ does, and Unicode's bidirectional
// embeddings, overrides and isolates.
bool IsControl(absl::string_view sequence) {
  const auto byte = [sequence](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (sequence.size() != 3 || byte(0) != 0xE2) return false;
  const bool is_embedding = byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool is_isolate = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return is_embedding || is_isolate;
}

}  // namespace

std::string Plain(absl::string_view text, size_t limit) {
  std::string plain;
  while (!text.empty()) {
    const size_t length = CharacterBytes(text, 0);
    const bool is_shown = length > 0 && !IsControl(text.substr(0, length));
    const absl::string_view piece = is_shown ? text.substr(0, length) : absl::string_view("?");
    if (plain.size() + piece.size() > limit) return absl::StrCat(plain, "...");
    plain.append(piece.data(), piece.size());
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return plain;
}

}  // namespace farandole
