#include "worker/order/relay_frame.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "worker/order/epoch_page.h"

namespace farandole {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are in the order of this machine");

constexpr size_t kHeadBytes = 5;
constexpr size_t kMostSentence = 4000;
// So that an entry with its fixed part, of at most 56 bytes on the page, fits into the log.
constexpr size_t kMostListBytes = EpochPage::kMostEntryBytes - 56;

struct PostHead {
  uint32_t rank;
  uint32_t slot;
  uint64_t signature;
  int64_t count;
  double prescale;
  double postscale;
  int32_t root;
  uint16_t payload_bytes;
  uint8_t kind;
  uint8_t op;
  uint8_t dtype;
  uint8_t reduce_op;
  uint8_t is_inline;
  uint8_t flags;
  uint32_t reserved;
};
static_assert(sizeof(PostHead) == 56, "no padding travels");

struct EntryHead {
  uint64_t sequence;
  double prescale;
  double postscale;
  uint64_t arena;
  uint32_t group;
  uint32_t slot;
  int32_t rank;
  int32_t root;
  uint32_t attempt;
  uint16_t items;
  uint16_t counts;
  uint8_t kind;
  uint8_t op;
  uint8_t dtype;
  uint8_t reduce_op;
  uint8_t flags;
  uint8_t reserved;
  uint16_t payload_bytes;
};
static_assert(sizeof(EntryHead) == 64, "no padding travels");

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
bool ReadEnum(uint8_t value, int limit, Enum* to) {
  *to = static_cast<Enum>(value);
  return value < limit;
}

bool ReadPost(Fields fields, int size, RelayFrame* frame) {
  PostHead head;
  if (!fields.Read(&head) || head.rank >= static_cast<uint32_t>(size)) return false;
  frame->rank = static_cast<int>(head.rank);
  Post& post = frame->post;
  post.slot = head.slot;
  post.signature = head.signature;
  post.count = head.count;
  post.prescale = head.prescale;
  post.postscale = head.postscale;
  post.root = head.root;
  post.flags = head.flags;
  post.is_inline = head.is_inline;
  post.payload_bytes = head.payload_bytes;
  const bool known = ReadEnum(head.kind, 3, &post.kind) && ReadEnum(head.op, kOpTypeCount, &post.op) &&
                     ReadEnum(head.dtype, kDTypeCount, &post.dtype) &&
                     ReadEnum(head.reduce_op, kReduceOpCount, &post.reduce_op);
  return known && post.count >= 0 && 0 <= post.root && post.root < size && post.flags <= kAllFlags &&
         post.is_inline <= 1 && post.payload_bytes <= kInlineBytes && fields.left().size() == post.payload_bytes &&
         fields.Read(post.payload, post.payload_bytes);
}

bool ReadLists(Fields fields, size_t items, size_t counts, Entry* entry) {
  // Before anything is allocated.
  const size_t bytes = items * sizeof(Entry::Item) + counts * sizeof(int64_t);
  if (fields.left().size() != bytes || bytes + entry->payload_bytes > kMostListBytes) return false;
  entry->items.resize(items);
  entry->counts.resize(counts);
  fields.Read(entry->items.data(), items * sizeof(Entry::Item));
  fields.Read(entry->counts.data(), counts * sizeof(int64_t));
  return std::all_of(entry->items.begin(), entry->items.end(),
                     [](const Entry::Item& item) { return item.count >= 0; }) &&
         std::all_of(entry->counts.begin(), entry->counts.end(), [](int64_t count) { return count >= 0; });
}

bool ReadEntry(Fields fields, int size, RelayFrame* frame) {
  EntryHead head;
  if (!fields.Read(&head)) return false;
  Entry& entry = frame->entry;
  entry.sequence = head.sequence;
  entry.prescale = head.prescale;
  entry.postscale = head.postscale;
  entry.arena = head.arena;
  entry.group = head.group;
  entry.slot = head.slot;
  entry.rank = head.rank;
  entry.root = head.root;
  entry.attempt = head.attempt;
  entry.payload_bytes = head.payload_bytes;
  entry.flags = head.flags;
  const bool known = ReadEnum(head.kind, static_cast<int>(Entry::Kind::kRootHasJoined) + 1, &entry.kind) &&
                     head.kind > 0 && ReadEnum(head.op, kOpTypeCount, &entry.op) &&
                     ReadEnum(head.dtype, kDTypeCount, &entry.dtype) &&
                     ReadEnum(head.reduce_op, kReduceOpCount, &entry.reduce_op);
  return known && 0 <= entry.rank && entry.rank < size && 0 <= entry.root && entry.root < size &&
         entry.flags <= kAllFlags && entry.payload_bytes <= kInlineBytes && head.counts <= size &&
         fields.Read(entry.payload, entry.payload_bytes) && ReadLists(fields, head.items, head.counts, &entry);
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
  PostHead head = {};
  head.rank = static_cast<uint32_t>(rank);
  head.slot = post.slot;
  head.signature = post.signature;
  head.count = post.count;
  head.prescale = post.prescale;
  head.postscale = post.postscale;
  head.root = post.root;
  head.flags = post.flags;
  head.kind = static_cast<uint8_t>(post.kind);
  head.op = static_cast<uint8_t>(post.op);
  head.dtype = static_cast<uint8_t>(post.dtype);
  head.reduce_op = static_cast<uint8_t>(post.reduce_op);
  head.is_inline = post.is_inline;
  head.payload_bytes = post.payload_bytes;
  const size_t start = Begin(RelayFrame::Kind::kPost, bytes);
  Append(&head, sizeof(head), bytes);
  Append(post.payload, post.payload_bytes, bytes);
  Close(start, bytes);
}

void AppendEntry(const Entry& entry, std::string* bytes) {
  EntryHead head = {};
  head.sequence = entry.sequence;
  head.prescale = entry.prescale;
  head.postscale = entry.postscale;
  head.arena = entry.arena;
  head.group = entry.group;
  head.slot = entry.slot;
  head.rank = entry.rank;
  head.root = entry.root;
  head.attempt = entry.attempt;
  head.items = static_cast<uint16_t>(entry.items.size());
  head.counts = static_cast<uint16_t>(entry.counts.size());
  head.kind = static_cast<uint8_t>(entry.kind);
  head.op = static_cast<uint8_t>(entry.op);
  head.dtype = static_cast<uint8_t>(entry.dtype);
  head.reduce_op = static_cast<uint8_t>(entry.reduce_op);
  head.payload_bytes = entry.payload_bytes;
  head.flags = entry.flags;
  const size_t start = Begin(RelayFrame::Kind::kEntry, bytes);
  Append(&head, sizeof(head), bytes);
  Append(entry.payload, entry.payload_bytes, bytes);
  Append(entry.items.data(), entry.items.size() * sizeof(Entry::Item), bytes);
  Append(entry.counts.data(), entry.counts.size() * sizeof(int64_t), bytes);
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
      absl::StrCat("it sends a frame of kind ", kind, " and ", length, " bytes that says what nobody could mean"));
}

}  // namespace farandole
