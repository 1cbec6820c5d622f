#include "worker/order/relay_frame.h"

#include <cstring>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "worker/order/entry_bytes.h"
#include "worker/order/epoch_page.h"

namespace farandole {
namespace {

constexpr int kSize = 300;

Post SomePost(int payload_bytes) {
  Post post;
  post.slot = 7;
  post.kind = Post::Kind::kLeave;
  post.op = OpType::kBroadcast;
  post.dtype = DType::kI16;
  post.signature = 0x9e3779b97f4a7c15ULL;
  post.count = int64_t{1} << 40;
  post.root = 299;
  post.reduce_op = ReduceOp::kMax;
  post.is_inline = 1;
  post.flags = kRowsAreEmpty | kOnGpus;
  post.prescale = 0.5;
  post.postscale = -2.0;
  post.payload_bytes = static_cast<uint16_t>(payload_bytes);
  std::memset(post.payload, 'p', payload_bytes);
  return post;
}

Entry SomeEntry(int items, int counts) {
  Entry entry;
  entry.sequence = uint64_t{1} << 40;
  entry.kind = Entry::Kind::kBatch;
  entry.op = OpType::kAllgather;
  entry.dtype = DType::kF16;
  entry.reduce_op = ReduceOp::kMin;
  entry.group = 3;
  entry.slot = 9;
  entry.rank = 299;
  entry.root = 298;
  entry.attempt = 5;
  entry.prescale = 0.25;
  entry.postscale = 8.0;
  entry.arena = uint64_t{3} << 32 | 1;
  entry.flags = kRowsAreEmpty | kOnGpus;
  entry.payload_bytes = 3;
  std::memcpy(entry.payload, "abc", 3);
  for (int item = 0; item < items; ++item) entry.items.push_back({static_cast<uint32_t>(item + 1), 0, item * 10});
  for (int count = 0; count < counts; ++count) entry.counts.push_back(count);
  return entry;
}

TEST(RelayFrameTest, PostsOfEveryLengthArriveAsTheyWere) {
  for (int payload = 0; payload <= kInlineBytes; ++payload) {
    const Post post = SomePost(payload);
    std::string bytes;
    AppendPost(299, post, &bytes);
    RelayFrame frame;
    const absl::StatusOr<size_t> taken = TakeFrame(bytes, kSize, &frame);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(*taken, bytes.size());
    EXPECT_EQ(frame.kind, RelayFrame::Kind::kPost);
    EXPECT_EQ(frame.rank, 299);
    std::string again;
    AppendPost(frame.rank, frame.post, &again);
    EXPECT_EQ(again, bytes);
    EXPECT_EQ(frame.post.count, post.count);
    EXPECT_EQ(frame.post.postscale, post.postscale);
    EXPECT_EQ(std::string(frame.post.payload, payload), std::string(payload, 'p'));
  }
}

TEST(RelayFrameTest, EntriesArriveAsTheyWere) {
  for (const int items : {0, 1, 1024}) {
    for (const int counts : {0, 1, 300}) {
      std::string bytes;
      AppendEntry(SomeEntry(items, counts), &bytes);
      RelayFrame frame;
      const absl::StatusOr<size_t> taken = TakeFrame(bytes, kSize, &frame);
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(*taken, bytes.size());
      EXPECT_EQ(frame.kind, RelayFrame::Kind::kEntry);
      EXPECT_EQ(static_cast<int>(frame.entry.items.size()), items);
      EXPECT_EQ(static_cast<int>(frame.entry.counts.size()), counts);
      EXPECT_EQ(frame.entry.rank, 299);
      std::string again;
      AppendEntry(frame.entry, &again);
      EXPECT_EQ(again, bytes);
    }
  }
}

TEST(RelayFrameTest, AnEndHasItsCodeAndASentenceOfBoundedLength) {
  std::string bytes;
  AppendEnd(absl::DeadlineExceededError("rank 1 was silent"), &bytes);
  RelayFrame frame;
  ASSERT_TRUE(TakeFrame(bytes, kSize, &frame).ok());
  EXPECT_EQ(frame.kind, RelayFrame::Kind::kEnd);
  EXPECT_EQ(frame.end, absl::DeadlineExceededError("rank 1 was silent"));
  bytes.clear();
  AppendEnd(absl::AbortedError(std::string(1 << 20, 'x')), &bytes);
  ASSERT_TRUE(TakeFrame(bytes, kSize, &frame).ok());
  EXPECT_EQ(frame.end.message().size(), 4000u);
}

TEST(RelayFrameTest, WhatIsNotAllThereIsNotTaken) {
  std::string bytes;
  AppendEntry(SomeEntry(3, 2), &bytes);
  RelayFrame frame;
  for (size_t length = 0; length < bytes.size(); ++length) {
    const absl::StatusOr<size_t> taken = TakeFrame(absl::string_view(bytes).substr(0, length), kSize, &frame);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(*taken, 0u);
  }
}

std::string Changed(std::string bytes, size_t at, unsigned char value) {
  bytes.at(at) = static_cast<char>(value);
  return bytes;
}

TEST(RelayFrameTest, WhatNobodyCouldMeanIsRefused) {
  std::string post;
  AppendPost(299, SomePost(8), &post);
  std::string entry;
  AppendEntry(SomeEntry(2, 2), &entry);
  std::string end;
  AppendEnd(absl::AbortedError("x"), &end);
  RelayFrame frame;
  const std::string wrong[] = {
      std::string("\0\0\0\0\1", 5),        // shorter than its head
      std::string("\xff\xff\xff\x7f", 4),  // longer than any
      Changed(post, 4, 0),                 // of no kind
      Changed(post, 4, 4),
      Changed(post, 6, 2),                  // of a rank beyond the last
      Changed(post, 5 + 27, 0x80),          // a negative count
      Changed(post, 5 + 8, 3),              // no kind of post
      Changed(post, 5 + 9, kAllFlags + 1),  // no such flag
      Changed(post, 5 + 10, kOpTypeCount),  // no op
      Changed(post, 5 + 11, kDTypeCount),
      Changed(post, 5 + 32, kReduceOpCount),
      Changed(post, 5 + 34, 9),  // a payload that is not there
      Changed(post, 5 + 34, 200),
      Changed(entry, 5 + 8, 0),  // no kind of entry
      Changed(entry, 5 + 8, 8),
      Changed(entry, 5 + 9, kOpTypeCount),  // no op
      Changed(entry, 5 + 10, kDTypeCount),
      Changed(entry, 5 + 11, kReduceOpCount),
      Changed(entry, 5 + 13, 2),              // a payload beyond its bound
      Changed(entry, 5 + 14, kAllFlags + 1),  // no such flag
      Changed(entry, 5 + 25, 2),              // of a rank beyond the last
      Changed(entry, 5 + 29, 2),              // of a root beyond the last
      Changed(entry, 5 + 36, 3),              // an item that is not there
      Changed(entry, 5 + 38, 200),            // counts that are not there
      Changed(entry, 5 + 39, 2),              // more counts than ranks
      Changed(entry, entry.size() - 1, 0x80),
      Changed(end, 5, 0),  // an end that is none
      Changed(end, 6, 1),
  };
  for (const std::string& bytes : wrong) {
    EXPECT_EQ(TakeFrame(bytes, kSize, &frame).status().code(), absl::StatusCode::kInvalidArgument)
        << &bytes - wrong << "th";
  }
}

TEST(RelayFrameTest, NoBytesLeadBeyondTheirEnd) {
  // The sanitizers watch.
  std::mt19937 random(1);
  std::string good;
  AppendPost(1, SomePost(40), &good);
  AppendEntry(SomeEntry(5, 5), &good);
  AppendEnd(absl::AbortedError("over"), &good);
  RelayFrame frame;
  for (int round = 0; round < 200'000; ++round) {
    std::string bytes = good.substr(random() % good.size());
    for (int change = static_cast<int>(random() % 4); change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<size_t> taken = TakeFrame(bytes, kSize, &frame);
    ASSERT_LE(taken.value_or(0), bytes.size());
  }
}

TEST(RelayFrameTest, TheLargestEntryThatFitsIntoTheLogFitsIntoAFrame) {
  Entry entry = SomeEntry(0, 0);
  entry.payload_bytes = 0;
  entry.items.resize((EpochPage::kMostEntryBytes - kMostFixedEntryBytes) / sizeof(Entry::Item));
  std::string bytes;
  AppendEntry(entry, &bytes);
  RelayFrame frame;
  const absl::StatusOr<size_t> taken = TakeFrame(bytes, kSize, &frame);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(*taken, bytes.size());
  // One more would not fit into the log, and is refused before it gets there.
  entry.items.emplace_back();
  bytes.clear();
  AppendEntry(entry, &bytes);
  EXPECT_FALSE(TakeFrame(bytes, kSize, &frame).ok());
}

}  // namespace
}  // namespace farandole
