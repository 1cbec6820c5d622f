#ifndef FARANDOLE_WORKER_ORDER_ENTRY_BYTES_H_
#define FARANDOLE_WORKER_ORDER_ENTRY_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/dtype.h"
#include "base/op_type.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// An entry of the log as bytes, the same on a host's page and between hosts: a head, a batch's own fields, the
// payload, the items and the counts. The sequence number is where the entry lies, and not among them.

// With a small result behind it, it is one cache line of the page.
struct EntryHead {
  Entry::Kind kind;
  OpType op;
  DType dtype;
  ReduceOp reduce_op;
  uint16_t payload_bytes;
  uint8_t flags;
  uint8_t reserved;
  uint32_t group;
  uint32_t slot;
  int32_t rank;
  int32_t root;
  uint32_t attempt;
  uint16_t items;
  uint16_t counts;
};
static_assert(sizeof(EntryHead) == 32, "24 bytes of payload fit into the first cache line");

// The fields that only an entry of kind kBatch has.
struct EntryBatchPart {
  double prescale;
  double postscale;
  uint64_t arena;
};

// The most bytes that an entry has besides its payload and its lists.
inline constexpr size_t kMostFixedEntryBytes = sizeof(EntryHead) + sizeof(EntryBatchPart);

// An entry's bytes, in parts that lie one behind the other. Borrows the entry, which must not change meanwhile.
class EntryParts {
 public:
  struct Part {
    const void* data;
    size_t bytes;
  };

  explicit EntryParts(const Entry& entry)
      : head_{entry.kind,
              entry.op,
              entry.dtype,
              entry.reduce_op,
              entry.payload_bytes,
              entry.flags,
              /*reserved=*/0,
              entry.group,
              entry.slot,
              entry.rank,
              entry.root,
              entry.attempt,
              static_cast<uint16_t>(entry.items.size()),
              static_cast<uint16_t>(entry.counts.size())},
        batch_{entry.prescale, entry.postscale, entry.arena},
        parts_{{&head_, sizeof(head_)},
               {&batch_, entry.kind == Entry::Kind::kBatch ? sizeof(batch_) : 0},
               {entry.payload, entry.payload_bytes},
               {entry.items.data(), entry.items.size() * sizeof(Entry::Item)},
               {entry.counts.data(), entry.counts.size() * sizeof(int64_t)}} {}
  EntryParts(const EntryParts&) = delete;
  EntryParts& operator=(const EntryParts&) = delete;

  const Part* begin() const { return parts_; }
  const Part* end() const { return parts_ + std::size(parts_); }
  size_t bytes() const {
    size_t bytes = 0;
    for (const Part& part : parts_) bytes += part.bytes;
    return bytes;
  }

 private:
  const EntryHead head_;
  const EntryBatchPart batch_;
  const Part parts_[5];
};

// How many bytes follow this head.
inline size_t BytesBehind(const EntryHead& head) {
  return (head.kind == Entry::Kind::kBatch ? sizeof(EntryBatchPart) : 0) + head.payload_bytes +
         head.items * sizeof(Entry::Item) + head.counts * sizeof(int64_t);
}

// Sets all of `entry` but its sequence from a head and the bytes behind it, which copy(void* to, size_t bytes) gives
// one after the other. The fields of EntryBatchPart keep their values for other kinds.
template <typename Copy>
void ReadBehind(const EntryHead& head, Copy copy, Entry* entry) {
  entry->kind = head.kind;
  entry->op = head.op;
  entry->dtype = head.dtype;
  entry->reduce_op = head.reduce_op;
  entry->payload_bytes = head.payload_bytes;
  entry->flags = head.flags;
  entry->group = head.group;
  entry->slot = head.slot;
  entry->rank = head.rank;
  entry->root = head.root;
  entry->attempt = head.attempt;
  if (head.kind == Entry::Kind::kBatch) {
    EntryBatchPart batch;
    copy(&batch, sizeof(batch));
    entry->prescale = batch.prescale;
    entry->postscale = batch.postscale;
    entry->arena = batch.arena;
  }
  copy(entry->payload, std::min<size_t>(head.payload_bytes, kInlineBytes));
  entry->items.resize(head.items);
  copy(entry->items.data(), head.items * sizeof(Entry::Item));
  entry->counts.resize(head.counts);
  copy(entry->counts.data(), head.counts * sizeof(int64_t));
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_ENTRY_BYTES_H_
