#ifndef FARANDOLE_WORKER_ORDER_TEST_POSTS_H_
#define FARANDOLE_WORKER_ORDER_TEST_POSTS_H_

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/order/orderer.h"

// How tests of Orderer post to it and show its entries.
namespace farandole {

// An allreduce of `count` float32.
inline Post Allreduce(uint32_t slot, int64_t count = 1000) {
  Post post;
  post.slot = slot;
  post.count = count;
  post.signature = 7;
  return post;
}

inline Post Gather(uint32_t slot, int64_t count) {
  Post post = Allreduce(slot, count);
  post.op = OpType::kAllgather;
  return post;
}

inline Post InlineAllreduce(uint32_t slot, float value, ReduceOp op = ReduceOp::kSum) {
  Post post = Allreduce(slot, 1);
  post.reduce_op = op;
  post.is_inline = 1;
  post.payload_bytes = sizeof(value);
  std::memcpy(post.payload, &value, sizeof(value));
  return post;
}

inline Post Notice(Post::Kind kind) {
  Post post;
  post.kind = kind;
  return post;
}

inline std::vector<Entry> Drain(Orderer& orderer, bool collectives = true) {
  std::vector<Entry> entries;
  while (std::optional<Entry> entry = orderer.Next(collectives)) entries.push_back(*std::move(entry));
  return entries;
}

inline std::vector<uint32_t> SlotsOf(const Entry& entry) {
  std::vector<uint32_t> slots;
  for (const Entry::Item& item : entry.items) slots.push_back(item.slot);
  return slots;
}

// "batch 1 2", "inline 3", "dispute 4.1", "retire 5", "left 1", "joined 2".
inline std::string Show(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kBatch: {
      std::string text = "batch";
      for (uint32_t slot : SlotsOf(entry)) text += " " + std::to_string(slot);
      return text;
    }
    case Entry::Kind::kInline:
      return "inline " + std::to_string(entry.slot);
    case Entry::Kind::kDispute:
      return "dispute " + std::to_string(entry.slot) + "." + std::to_string(entry.attempt);
    case Entry::Kind::kRetire:
      return "retire " + std::to_string(entry.slot);
    case Entry::Kind::kLeft:
      return "left " + std::to_string(entry.rank);
    case Entry::Kind::kAllJoined:
      return "joined " + std::to_string(entry.rank);
    case Entry::Kind::kRootHasJoined:
      return "no root " + std::to_string(entry.slot);
  }
  return "?";
}

inline std::vector<std::string> ShowAll(Orderer& orderer, bool collectives = true) {
  std::vector<std::string> text;
  for (const Entry& entry : Drain(orderer, collectives)) text.push_back(Show(entry));
  return text;
}

inline float FloatIn(const Entry& entry) {
  float value = 0;
  std::memcpy(&value, entry.payload, sizeof(value));
  return value;
}

inline Orderer WithSlots(int size, uint32_t slots, Orderer::Options options = Orderer::Options()) {
  Orderer orderer(size, options);
  for (uint32_t slot = 1; slot <= slots; ++slot) orderer.AddSlot(slot, 0);
  return orderer;
}

inline void PostOnAll(Orderer& orderer, int size, const Post& post) {
  for (int rank = 0; rank < size; ++rank) orderer.OnPost(rank, post);
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_TEST_POSTS_H_
