#include "base/text/utf8_text.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr size_t kMostShownBytes = 512;
constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsWithin(absl::string_view text, size_t at, unsigned char least, unsigned char most) {
  const auto byte = static_cast<unsigned char>(at < text.size() ? text[at] : 0);
  return byte >= least && byte <= most;
}

}  // namespace

// The second byte of some is limited: no longer form than needed, no surrogates, nothing above U+10FFFF.
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!IsWithin(text, at + 1, least, most)) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (!IsWithin(text, at + i, 0x80, 0xBF)) return 0;
  }
  return bytes;
}

bool IsUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

absl::Status CheckUtf8(absl::string_view what, absl::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  std::string shown;
  size_t at = 0;
  while (at < text.size() && at < kMostShownBytes) {
    const size_t bytes = std::max<size_t>(CharacterBytes(text, at), 1);
    // Each by itself: C's escapes go on with letters that follow.
    const absl::string_view piece = text.substr(at, bytes);
    absl::StrAppend(&shown, IsUtf8(piece) ? absl::Utf8SafeCHexEscape(piece) : absl::CHexEscape(piece));
    at += bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", shown, at < text.size() ? "..." : "", "\" is not UTF-8"));
}

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    const absl::string_view piece = bytes == 0 ? kReplacement : text.substr(at, bytes);
    valid.append(piece.data(), piece.size());
    at += bytes == 0 ? 1 : bytes;
  }
  return valid;
}

absl::string_view CutUtf8(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && IsWithin(text, limit, 0x80, 0xBF)) --limit;
  return text.substr(0, limit);
}

}  // namespace farandole
