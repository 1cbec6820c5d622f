#include "server/audit/audit_tail.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/audit/audit_chain.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostShown = 64;

constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

// Between two lines of a chain's file.
struct ChainOffset {
  uint64_t file = kEnd;
  uint64_t offset = kEnd;

  std::string Text() const { return absl::StrCat(file, ":", offset); }
};

absl::StatusOr<ChainOffset> ParseOffset(const std::string& text) {
  ChainOffset offset;
  if (text.empty()) return offset;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  if (absl::SimpleAtoi(parts.first, &offset.file) && absl::SimpleAtoi(parts.second, &offset.offset)) return offset;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMostShown)), "\" is no place in the audit log"));
}

// A piece of a file, and where it begins.
struct Piece {
  uint64_t begin = 0;
  std::string bytes;
};

// The last `most` bytes before `end`, or before the file's end. nullopt: the file has gone, as the oldest do.
absl::StatusOr<std::optional<Piece>> ReadBefore(const std::string& path, uint64_t end, uint64_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file.is_open() && errno == ENOENT) return std::nullopt;
  Piece piece;
  if (file.is_open()) {
    end = std::min(end, static_cast<uint64_t>(file.tellg()));
    piece.begin = end - std::min(end, most);
    piece.bytes.resize(end - piece.begin);
    file.seekg(static_cast<std::streamoff>(piece.begin));
    file.read(piece.bytes.data(), static_cast<std::streamsize>(piece.bytes.size()));
  }
  if (file.good()) return piece;
  return absl::UnavailableError(absl::StrCat("audit: cannot read ", path, ": ", strerror(errno)));
}

// Takes the lines of a piece into the part, the last first. Returns the place before those that it has looked at: the
// piece's begin, or that of the first line in it whose own begin lies there, or of the line with which the part is
// full.
uint64_t TakeLines(const Piece& piece, const AuditTailOptions& options, AuditPart* part) {
  size_t end = piece.bytes.size();
  while (end > 0 && part->lines.size() < options.most_lines) {
    // A last line without its end, as a writer leaves for a moment, is no JSON either.
    const size_t before = end == 1 ? std::string::npos : piece.bytes.rfind('\n', end - 2);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    if (begin == 0 && piece.begin > 0) break;
    Json line = Json::parse(piece.bytes.substr(begin, end - begin), nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && (options.wants == nullptr || options.wants(line))) part->lines.push_back(std::move(line));
    end = begin;
  }
  return piece.begin + end;
}

}  // namespace

absl::StatusOr<AuditPart> ReadAuditTail(const std::string& directory, const std::string& name, const std::string& place,
                                        const AuditTailOptions& options) {
  absl::StatusOr<ChainOffset> from = ParseOffset(place);
  if (!from.ok()) return from.status();
  const absl::StatusOr<std::vector<uint64_t>> numbers = FilesOfChain(directory, name);
  if (!numbers.ok()) return numbers.status();
  AuditPart part;
  for (auto number = numbers->rbegin(); number != numbers->rend(); ++number) {
    if (*number > from->file) continue;
    // Of an earlier file, all.
    const ChainOffset end{*number, *number == from->file ? from->offset : kEnd};
    if (end.offset == 0) continue;
    const size_t left = options.most_bytes - std::min(options.most_bytes, part.read_bytes);
    if (left == 0 || part.lines.size() >= options.most_lines) {
      part.next = end.Text();
      break;
    }
    const absl::StatusOr<std::optional<Piece>> piece =
        ReadBefore(ChainFile(directory, name, *number), end.offset, left);
    if (!piece.ok()) return piece.status();
    if (!piece->has_value()) break;
    part.read_bytes += (*piece)->bytes.size();
    const uint64_t before = TakeLines(**piece, options, &part);
    if (before == 0) continue;
    // A whole piece without the begin of a line is none of the log's own making, and is passed over.
    const bool is_stuck =
        before == (*piece)->begin + (*piece)->bytes.size() && (*piece)->bytes.size() == part.read_bytes;
    part.next = ChainOffset{*number, is_stuck ? (*piece)->begin : before}.Text();
    break;
  }
  return part;
}

}  // namespace farandole
