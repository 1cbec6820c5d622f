#include "worker/order/relay_frame.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "worker/order/entry_bytes.h"
#include "worker/order/epoch_page.h"

namespace farandole {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are in the order of this machine");

constexpr size_t kHeadBytes = 5;
constexpr size_t kMostSentence = 4000;
// So that an entry with its fixed part fits into the log.
constexpr size_t kMostListBytes = EpochPage::kMostEntryBytes - kMostFixedEntryBytes;

// Reads from the front of a frame, and never beyond its end.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : left_(bytes) {}
  bool Read(void* to, size_t bytes) {
    if (left_.size() < bytes) return false;
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_.remove_prefix(bytes);
    return true;
  }
  template <typename T>
  bool Read(T* value) {
    static_assert(std::is_trivially_copyable_v<T>, "fields are plain");
    return Read(value, sizeof(T));
  }
  absl::string_view left() const { return left_; }

 private:
  absl::string_view left_;
};

// Where a frame begins; its length is written by Close.
size_t Begin(RelayFrame::Kind kind, std::string* bytes) {
  const size_t start = bytes->size();
  bytes->append(4, '\0');
  bytes->push_back(static_cast<char>(kind));
  return start;
}

void Append(const void* from, size_t count, std::string* bytes) {
  bytes->append(static_cast<const char*>(from), count);
}

void Close(size_t start, std::string* bytes) {
  const uint32_t length = static_cast<uint32_t>(bytes->size() - start);
  std::memcpy(&(*bytes)[start], &length, sizeof(length));
}

template <typename Enum>
bool IsBelow(Enum value, int limit) {
  return static_cast<int>(value) < limit;
}

bool ReadPost(Fields fields, int size, RelayFrame* frame) {
  uint32_t rank = 0;
  PostHeader head;
  if (!fields.Read(&rank) || !fields.Read(&head) || rank >= static_cast<uint32_t>(size)) return false;
  frame->rank = static_cast<int>(rank);
  Post& post = frame->post;
  static_cast<PostHeader&>(post) = head;
  const bool known = IsBelow(post.kind, 3) && IsBelow(post.op, kOpTypeCount) && IsBelow(post.dtype, kDTypeCount) &&
                     IsBelow(post.reduce_op, kReduceOpCount);
  return known && post.count >= 0 && 0 <= post.root && post.root < size && post.flags <= kAllFlags &&
         post.is_inline <= 1 && post.payload_bytes <= kInlineBytes && fields.left().size() == post.payload_bytes &&
         fields.Read(post.payload, post.payload_bytes);
}

bool ReadEntry(Fields fields, int size, RelayFrame* frame) {
  EntryHead head;
  Entry& entry = frame->entry;
  if (!fields.Read(&entry.sequence) || !fields.Read(&head)) return false;
  const bool known = head.kind >= Entry::Kind::kBatch && head.kind <= Entry::Kind::kRootHasJoined &&
                     IsBelow(head.op, kOpTypeCount) && IsBelow(head.dtype, kDTypeCount) &&
                     IsBelow(head.reduce_op, kReduceOpCount);
  // All of it before anything is allocated.
  if (!known || head.rank < 0 || head.rank >= size || head.root < 0 || head.root >= size || head.flags > kAllFlags ||
      head.payload_bytes > kInlineBytes || head.counts > size || fields.left().size() != BytesBehind(head) ||
      head.items * sizeof(Entry::Item) + head.counts * sizeof(int64_t) + head.payload_bytes > kMostListBytes) {
    return false;
  }
  ReadBehind(
      head, [&](void* to, size_t bytes) { fields.Read(to, bytes); }, &entry);
  return std::all_of(entry.items.begin(), entry.items.end(), [](const Entry::Item& item) { return item.count >= 0; }) &&
         std::all_of(entry.counts.begin(), entry.counts.end(), [](int64_t count) { return count >= 0; });
}

bool ReadEnd(Fields fields, RelayFrame* frame) {
  uint32_t code = 0;
  if (!fields.Read(&code) || code == 0 || code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated))
    return false;
  if (fields.left().size() > kMostSentence) return false;
  frame->end = absl::Status(static_cast<absl::StatusCode>(code), fields.left());
  return true;
}

}  // namespace

void AppendPost(int rank, const Post& post, std::string* bytes) {
  const size_t start = Begin(RelayFrame::Kind::kPost, bytes);
  const uint32_t from = static_cast<uint32_t>(rank);
  Append(&from, sizeof(from), bytes);
  const PostHeader& head = post;
  Append(&head, sizeof(head), bytes);
  Append(post.payload, post.payload_bytes, bytes);
  Close(start, bytes);
}

void AppendEntry(const Entry& entry, std::string* bytes) {
  const size_t start = Begin(RelayFrame::Kind::kEntry, bytes);
  Append(&entry.sequence, sizeof(entry.sequence), bytes);
  for (const EntryParts::Part& part : EntryParts(entry)) Append(part.data, part.bytes, bytes);
  Close(start, bytes);
}

void AppendEnd(const absl::Status& end, std::string* bytes) {
  const size_t start = Begin(RelayFrame::Kind::kEnd, bytes);
  const uint32_t code = static_cast<uint32_t>(end.code());
  Append(&code, sizeof(code), bytes);
  const absl::string_view sentence = end.message().substr(0, kMostSentence);
  Append(sentence.data(), sentence.size(), bytes);
  Close(start, bytes);
}

absl::StatusOr<size_t> TakeFrame(absl::string_view bytes, int size, RelayFrame* frame) {
  uint32_t length = 0;
  Fields head(bytes);
  if (!head.Read(&length)) return 0;
  if (length < kHeadBytes || length > kMostFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("it sends a frame of ", length, " bytes, which must have from ",
                                                   kHeadBytes, " to ", kMostFrameBytes));
  }
  if (bytes.size() < length) return 0;
  Fields fields(bytes.substr(kHeadBytes, length - kHeadBytes));
  const uint8_t kind = static_cast<uint8_t>(bytes[kHeadBytes - 1]);
  frame->kind = static_cast<RelayFrame::Kind>(kind);
  const bool good = kind == 1   ? ReadPost(fields, size, frame)
                    : kind == 2 ? ReadEntry(fields, size, frame)
                    : kind == 3 ? ReadEnd(fields, frame)
                                : false;
  if (good) return length;
  return absl::InvalidArgumentError(
      absl::StrCat("it sends a frame of kind ", kind, " and ", length, " bytes whose fields are not valid"));
}

}  // namespace farandole
