#include "deploy/launcher/output/terminal_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace farandole::launcher {
namespace {

// A sequence that is longer is none. Links to web pages are the longest.
constexpr size_t kMostSequenceBytes = 4096;
constexpr size_t kTabColumns = 8;

struct Range {
  uint32_t first;
  uint32_t last;
};
// East Asian wide characters and emoji, as wcwidth of current terminals has them, by blocks.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x231A, 0x231B},  {0x23E9, 0x23EC},   {0x2E80, 0x303E},
                           {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                           {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                           {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
constexpr Range kCombining[] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t character) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [character](const Range& range) { return range.first <= character && character <= range.last; });
}

bool IsBetween(char c, unsigned char first, unsigned char last) {
  const auto byte = static_cast<unsigned char>(c);
  return first <= byte && byte <= last;
}

bool IsContinuation(char c) { return IsBetween(c, 0x80, 0xBF); }

// The character of UTF-8 with which `text` begins, and its bytes in `*size`. Invalid UTF-8 counts as one character.
uint32_t FirstCharacter(absl::string_view text, size_t* size) {
  const auto lead = static_cast<unsigned char>(text[0]);
  *size = 1;
  if (lead < 0xC0) return lead;
  uint32_t character = lead & (lead < 0xE0 ? 0x1F : lead < 0xF0 ? 0x0F : 0x07);
  for (; *size < text.size() && *size < 4 && IsContinuation(text[*size]); ++*size) {
    character = character << 6 | (static_cast<unsigned char>(text[*size]) & 0x3F);
  }
  return character;
}

size_t CharacterWidth(uint32_t character, size_t column) {
  if (character == '\t') return kTabColumns - column % kTabColumns;
  if (character < 0x20 || character == 0x7F || IsIn(kCombining, character)) return 0;
  return IsIn(kWide, character) ? 2 : 1;
}

// The size of a sequence that ends in one of first..last; the bytes before its end, from `at` on, are 0x20..0x3F.
size_t SizeUpTo(absl::string_view text, size_t at, unsigned char first) {
  for (; at < text.size(); ++at) {
    if (IsBetween(text[at], first, 0x7E)) return at + 1;
    if (!IsBetween(text[at], 0x20, 0x3F)) return 1;
  }
  return text.size() > kMostSequenceBytes ? 1 : 0;
}

// Of a sequence with a text in it, such as a window's title.
size_t SizeOfString(absl::string_view text) {
  for (size_t at = 2; at < text.size(); ++at) {
    if (text[at] == '\a') return at + 1;
    if (text[at] == kEscape) return at + 1 == text.size() ? 0 : text[at + 1] == '\\' ? at + 2 : 1;
    if (IsBetween(text[at], 0x00, 0x1F)) return 1;
  }
  return text.size() > kMostSequenceBytes ? 1 : 0;
}

// The parameter that ends the attribute which the parameter `code` begins; 0: it begins none that we know.
int EndOf(int code) {
  if ((code >= 30 && code <= 38) || (code >= 90 && code <= 97)) return 39;
  if ((code >= 40 && code <= 48) || (code >= 100 && code <= 107)) return 49;
  if (code == 1 || code == 2) return 22;
  return code >= 3 && code <= 9 ? code + 20 : 0;
}

}  // namespace

size_t SequenceSize(absl::string_view text) {
  if (text.size() < 2) return 0;
  const char kind = text[1];
  if (kind == '[') return SizeUpTo(text, 2, 0x40);
  if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') return SizeOfString(text);
  if (IsBetween(kind, 0x20, 0x2F)) return SizeUpTo(text, 2, 0x30);
  return IsBetween(kind, 0x30, 0x7E) ? 2 : 1;
}

std::string FitColumns(absl::string_view text, size_t columns) {
  std::string fit;
  size_t column = 0;
  while (!text.empty()) {
    const bool may_be_sequence = text[0] == kEscape;
    size_t size = may_be_sequence ? std::max<size_t>(1, SequenceSize(text)) : 0;
    if (!may_be_sequence) {
      const size_t width = CharacterWidth(FirstCharacter(text, &size), column);
      // If a character does not fit, the text after it does not fit either.
      column = width > columns - std::min(column, columns) ? columns + 1 : column + width;
    }
    if (may_be_sequence || column <= columns) fit.append(text.data(), size);
    text.remove_prefix(size);
  }
  return fit;
}

size_t DisplayWidth(absl::string_view text) {
  size_t column = 0;
  while (!text.empty()) {
    size_t size = 0;
    if (text[0] == kEscape) {
      size = std::max<size_t>(1, SequenceSize(text));
    } else {
      column += CharacterWidth(FirstCharacter(text, &size), column);
    }
    text.remove_prefix(size);
  }
  return column;
}

void TextStyle::Apply(absl::string_view sequence) {
  // "\x1b[" PARAMETERS "m"
  const std::vector<std::string> codes = absl::StrSplit(sequence.substr(2, sequence.size() - 3), ';');
  for (size_t i = 0; i < codes.size(); ++i) {
    int code = 0;
    // An empty one is 0; "4:3" is a kind of 4.
    if (!absl::SimpleAtoi(codes[i].substr(0, codes[i].find(':')), &code)) code = 0;
    const int end = EndOf(code);
    if (code == 0) {
      parameters_.clear();
    } else if (end == 0) {
      parameters_.erase(code);
    } else if ((code == 38 || code == 48) && i + 1 < codes.size()) {
      // "38;5;N" or "38;2;R;G;B"
      const size_t count = std::min<size_t>(codes[i + 1] == "5" ? 3 : 5, codes.size() - i);
      parameters_[end] = absl::StrJoin(codes.begin() + static_cast<std::ptrdiff_t>(i),
                                       codes.begin() + static_cast<std::ptrdiff_t>(i + count), ";");
      i += count - 1;
    } else {
      parameters_[end] = codes[i];
    }
  }
}

std::string TextStyle::Sequence() const {
  if (parameters_.empty()) return "";
  return absl::StrCat(
      "\x1b[",
      absl::StrJoin(parameters_, ";", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.second); }),
      "m");
}

}  // namespace farandole::launcher
