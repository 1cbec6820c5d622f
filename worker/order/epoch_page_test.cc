#include "worker/order/epoch_page.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr uint64_t kPosts = 1024;
constexpr uint64_t kCells = EpochRings().log_cells;

// The page of one epoch in private memory, with the end of every rank.
class Page {
 public:
  explicit Page(int size) : memory_(new (std::align_val_t(64)) char[EpochPage::Bytes(size)]()) {
    for (int rank = 0; rank < size; ++rank) {
      ends_.push_back(std::make_unique<EpochPage>(memory_, rank, size));
      all_.push_back(rank);
    }
  }
  ~Page() { ::operator delete[](memory_, std::align_val_t(64)); }

  EpochPage& end(int rank) { return *ends_[rank]; }
  bool Append(Entry& entry) { return end(0).TryAppend(entry, all_); }

 private:
  char* memory_;
  std::vector<std::unique_ptr<EpochPage>> ends_;
  std::vector<int> all_;
};

Post PostNumber(int64_t number, uint16_t payload_bytes) {
  Post post;
  post.slot = static_cast<uint32_t>(number);
  post.op = OpType::kBroadcast;
  post.dtype = DType::kI16;
  post.reduce_op = ReduceOp::kMax;
  post.signature = static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15ULL;
  post.count = -number;
  post.root = static_cast<int32_t>(number % 7);
  post.is_inline = 1;
  post.flags = kRowsAreEmpty | kOnGpus;
  post.prescale = number * 0.5;
  post.postscale = number * 2.0;
  post.payload_bytes = payload_bytes;
  std::memset(post.payload, static_cast<int>(number), payload_bytes);
  return post;
}

void ExpectEqual(const Post& a, const Post& b) {
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.reduce_op, b.reduce_op);
  EXPECT_EQ(a.is_inline, b.is_inline);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.prescale, b.prescale);
  EXPECT_EQ(a.postscale, b.postscale);
  ASSERT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(std::memcmp(a.payload, b.payload, a.payload_bytes), 0);
}

Entry RandomEntry(std::mt19937& random) {
  auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  Entry entry;
  entry.kind = static_cast<Entry::Kind>(below(6) + 1);
  entry.op = static_cast<OpType>(below(4));
  entry.dtype = static_cast<DType>(below(kDTypeCount));
  entry.reduce_op = static_cast<ReduceOp>(below(kReduceOpCount));
  entry.group = static_cast<uint32_t>(below(1 << 30));
  entry.slot = static_cast<uint32_t>(below(1 << 30));
  entry.root = below(100);
  entry.attempt = static_cast<uint32_t>(below(1000));
  entry.flags = static_cast<uint8_t>(below(4));
  if (entry.kind == Entry::Kind::kLeft) entry.kind = Entry::Kind::kRetire;  // leaving has an effect of its own
  if (entry.kind == Entry::Kind::kBatch) {
    entry.prescale = below(100) / 8.0;
    entry.postscale = below(100) / 16.0;
    entry.arena = static_cast<uint64_t>(below(1 << 30)) << 32;
    const int items = below(10) == 0 ? 1024 : below(12);
    for (int item = 0; item < items; ++item) {
      entry.items.push_back({static_cast<uint32_t>(below(1 << 30)), 0, below(1 << 30)});
    }
    for (int counts = below(5) == 0 ? below(300) : 0; counts > 0; --counts) entry.counts.push_back(below(1 << 30));
  } else if (entry.kind == Entry::Kind::kInline) {
    entry.payload_bytes = static_cast<uint16_t>(below(kInlineBytes + 1));
    for (int byte = 0; byte < entry.payload_bytes; ++byte) entry.payload[byte] = static_cast<char>(below(256));
  }
  return entry;
}

void ExpectEqual(const Entry& a, const Entry& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.reduce_op, b.reduce_op);
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.attempt, b.attempt);
  EXPECT_EQ(a.flags, b.flags);
  if (a.kind == Entry::Kind::kBatch) {
    EXPECT_EQ(a.prescale, b.prescale);
    EXPECT_EQ(a.postscale, b.postscale);
    EXPECT_EQ(a.arena, b.arena);
  }
  ASSERT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(std::memcmp(a.payload, b.payload, a.payload_bytes), 0);
  ASSERT_EQ(a.items.size(), b.items.size());
  for (size_t item = 0; item < a.items.size(); ++item) {
    ASSERT_EQ(a.items[item].slot, b.items[item].slot);
    ASSERT_EQ(a.items[item].count, b.items[item].count);
  }
  EXPECT_EQ(a.counts, b.counts);
}

TEST(EpochPageTest, PostsOfEverySizeArriveInOrderAndWrapAround) {
  Page page(2);
  int64_t sent = 0;
  int64_t received = 0;
  Post post;
  while (received < 5000) {
    for (int64_t burst = sent % 300 + 1; burst > 0; --burst, ++sent) {
      ASSERT_TRUE(page.end(1).TryPost(PostNumber(sent, static_cast<uint16_t>(sent % (kInlineBytes + 1)))));
    }
    for (; received < sent; ++received) {
      ASSERT_TRUE(page.end(0).ReadPost(1, &post));
      ExpectEqual(post, PostNumber(received, static_cast<uint16_t>(received % (kInlineBytes + 1))));
    }
    ASSERT_FALSE(page.end(0).ReadPost(1, &post));
    ASSERT_FALSE(page.end(0).ReadPost(0, &post)) << "each rank has a ring of its own";
  }
}

TEST(EpochPageTest, AFullRingOfPostsTakesOneMoreWhenOneWasRead) {
  Page page(2);
  for (uint64_t number = 0; number < kPosts; ++number) ASSERT_TRUE(page.end(1).TryPost(PostNumber(number, 4)));
  EXPECT_FALSE(page.end(1).TryPost(PostNumber(kPosts, 4)));
  Post post;
  ASSERT_TRUE(page.end(0).ReadPost(1, &post));
  EXPECT_TRUE(page.end(1).TryPost(PostNumber(kPosts, 4)));
  EXPECT_FALSE(page.end(1).TryPost(PostNumber(kPosts + 1, 4)));
  for (uint64_t number = 1; number <= kPosts; ++number) {
    ASSERT_TRUE(page.end(0).ReadPost(1, &post));
    ExpectEqual(post, PostNumber(number, 4));
  }
}

TEST(EpochPageTest, EntriesOfEveryKindAndSizeArriveAtAllRanksAndWrapAround) {
  Page page(3);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    Entry read;
    for (int round = 0; round < 1500; ++round) {
      std::vector<Entry> burst(1 + round % 5);
      for (Entry& entry : burst) {
        entry = RandomEntry(random);
        ASSERT_TRUE(page.Append(entry));
      }
      for (int rank = 0; rank < 3; ++rank) {
        for (const Entry& entry : burst) {
          ASSERT_TRUE(page.end(rank).ReadEntry(&read));
          ExpectEqual(read, entry);
        }
        ASSERT_FALSE(page.end(rank).ReadEntry(&read));
      }
    }
  }
}

TEST(EpochPageTest, SequencesGrow) {
  Page page(1);
  std::mt19937 random(1);
  Entry read;
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    Entry entry = RandomEntry(random);
    ASSERT_TRUE(page.Append(entry));
    EXPECT_GT(entry.sequence, last);
    last = entry.sequence;
    ASSERT_TRUE(page.end(0).ReadEntry(&read));
  }
}

TEST(EpochPageTest, AFullLogWaitsForItsSlowestReader) {
  Page page(2);
  Entry entry;
  entry.kind = Entry::Kind::kRetire;
  uint64_t appended = 0;
  while (page.Append(entry)) entry.slot = static_cast<uint32_t>(++appended);
  EXPECT_EQ(appended, kCells);
  Entry read;
  ASSERT_TRUE(page.end(0).ReadEntry(&read));
  EXPECT_FALSE(page.Append(entry)) << "rank 1 has read nothing";
  ASSERT_TRUE(page.end(1).ReadEntry(&read));
  EXPECT_TRUE(page.Append(entry));
  EXPECT_FALSE(page.Append(entry));
  for (uint32_t slot = 1; slot <= kCells; ++slot) {
    ASSERT_TRUE(page.end(1).ReadEntry(&read));
    EXPECT_EQ(read.slot, slot);
  }
}

// Whether a ring has woken `bell` since Expect.
class Sleeper {
 public:
  Sleeper(Doorbell& bell, Attention attention) : bell_(bell), ticket_(bell.Ticket()) { bell.SetAttention(attention); }
  bool WasWoken() const { return bell_.Ticket() != ticket_; }

 private:
  Doorbell& bell_;
  const uint32_t ticket_;
};

TEST(EpochPageTest, WhoFoundItsRingOfPostsFullIsWokenByTheFirstReading) {
  Page page(2);
  Post post = PostNumber(1, 4);
  while (page.end(1).TryPost(post)) continue;
  Sleeper sleeper(page.end(1).doorbell(), Attention::kDataThreadAsleep);
  ASSERT_TRUE(page.end(0).ReadPost(1, &post));
  EXPECT_TRUE(sleeper.WasWoken());
  Sleeper again(page.end(1).doorbell(), Attention::kDataThreadAsleep);
  ASSERT_TRUE(page.end(0).ReadPost(1, &post));
  EXPECT_FALSE(again.WasWoken()) << "nobody waits for room";
}

TEST(EpochPageTest, WhoKeepsTheLogFullIsWokenAndWakesRank0ByReading) {
  Page page(3);
  Sleeper slow(page.end(2).doorbell(), Attention::kUnconcerned);
  Entry entry;
  entry.kind = Entry::Kind::kInline;
  const int concerned[] = {0, 1};
  while (page.end(0).TryAppend(entry, concerned)) continue;
  EXPECT_TRUE(slow.WasWoken());
  Entry read;
  for (int rank : {0, 1}) {
    while (page.end(rank).ReadEntry(&read)) continue;
  }
  Sleeper keeper(page.end(0).doorbell(), Attention::kDataThreadAsleep);
  ASSERT_TRUE(page.end(2).ReadEntry(&read));
  EXPECT_TRUE(keeper.WasWoken());
  EXPECT_TRUE(page.end(0).TryAppend(entry, concerned));
  Sleeper content(page.end(0).doorbell(), Attention::kDataThreadAsleep);
  ASSERT_TRUE(page.end(2).ReadEntry(&read));
  EXPECT_FALSE(content.WasWoken()) << "rank 0 waits for nothing";
}

TEST(EpochPageTest, TheLogWaitsForARankThatLeavesUntilItHasReadThatItLeft) {
  Page page(2);
  Entry entry;
  entry.kind = Entry::Kind::kLeft;
  entry.rank = 1;
  ASSERT_TRUE(page.Append(entry));
  EXPECT_TRUE(page.end(1).HasLeft(1));
  EXPECT_FALSE(page.end(1).HasLeft(0));
  entry.kind = Entry::Kind::kRetire;
  Entry read;
  for (uint64_t cell = 1; cell < kCells; ++cell) ASSERT_TRUE(page.Append(entry));
  while (page.end(0).ReadEntry(&read)) continue;
  EXPECT_FALSE(page.Append(entry)) << "it would overwrite what rank 1 waits for";
  ASSERT_TRUE(page.end(1).ReadEntry(&read));
  EXPECT_EQ(read.kind, Entry::Kind::kLeft);
  for (uint64_t cell = 0; cell < 3 * kCells; ++cell) {
    ASSERT_TRUE(page.Append(entry)) << "rank 1 reads no more";
    ASSERT_TRUE(page.end(0).ReadEntry(&read));
  }
}

TEST(EpochPageTest, NewsIsWhatCanBeRead) {
  Page page(2);
  EXPECT_FALSE(page.end(0).HasNews());
  EXPECT_FALSE(page.end(1).HasNews());
  ASSERT_TRUE(page.end(1).TryPost(PostNumber(1, 4)));
  EXPECT_TRUE(page.end(0).HasNews());
  EXPECT_FALSE(page.end(1).HasNews()) << "posts are for rank 0";
  Post post;
  ASSERT_TRUE(page.end(0).ReadPost(1, &post));
  EXPECT_FALSE(page.end(0).HasNews());
  Entry entry;
  entry.kind = Entry::Kind::kRetire;
  ASSERT_TRUE(page.Append(entry));
  for (int rank : {0, 1}) {
    EXPECT_TRUE(page.end(rank).HasNews());
    ASSERT_TRUE(page.end(rank).ReadEntry(&entry));
    EXPECT_FALSE(page.end(rank).HasNews());
  }
}

TEST(EpochPageTest, AnOrdinaryPostLeavesAnUnconcernedRank0AsleepAndALeavingOneWakesIt) {
  Page page(2);
  Sleeper sleeper(page.end(0).doorbell(), Attention::kUnconcerned);
  Post post = PostNumber(1, 4);
  ASSERT_TRUE(page.end(1).TryPost(post));
  EXPECT_FALSE(sleeper.WasWoken());
  post.kind = Post::Kind::kLeave;
  ASSERT_TRUE(page.end(1).TryPost(post));
  EXPECT_TRUE(sleeper.WasWoken());
}

TEST(EpochPageTest, SignsOfLifeAreSeenByAll) {
  Page page(2);
  page.end(1).Beat({5, 123, 77, true});
  EXPECT_EQ(page.end(0).ReadPulse(1).beat, 5u);
  EXPECT_EQ(page.end(0).ReadPulse(1).batches, 77u);
  EXPECT_EQ(page.end(0).ReadPulse(1).beat_ns, 123);
  EXPECT_TRUE(page.end(0).ReadPulse(1).is_attached);
  EXPECT_EQ(page.end(1).ReadPulse(0).beat, 0u);
  EXPECT_FALSE(page.end(1).ReadPulse(0).is_attached);
}

TEST(EpochPageTest, WhyTheEpochHasEndedOnARankIsSeenByAll) {
  Page page(2);
  EXPECT_TRUE(page.end(0).StatedEnd(1).ok());
  page.end(1).StateEnd(absl::AbortedError("rank 3 died"));
  EXPECT_EQ(page.end(0).StatedEnd(1), absl::AbortedError("rank 3 died"));
  EXPECT_TRUE(page.end(1).StatedEnd(0).ok());
  page.end(0).StateEnd(absl::InternalError(std::string(2000, 'x')));
  EXPECT_EQ(page.end(1).StatedEnd(0), absl::InternalError(std::string(448, 'x')));
  page.end(0).StateEnd(absl::InternalError(std::string(447, 'x') + "\xC3\xB6"));
  EXPECT_EQ(page.end(1).StatedEnd(0), absl::InternalError(std::string(447, 'x'))) << "no part of a character";
}

TEST(EpochPageTest, ThreadsPassMoreThanTheRingsHoldWithoutLoss) {
  constexpr int kSize = 3;
  constexpr int64_t kEach = 20000;
  Page page(kSize);
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < kSize; ++rank) {
    ranks.emplace_back([&page, rank] {
      EpochPage& end = page.end(rank);
      Entry entry;
      int64_t sent = 0;
      for (int64_t read = 0; read < (kSize - 1) * kEach;) {
        bool moved = false;
        if (sent < kEach && end.TryPost(PostNumber(sent, 4))) moved = ++sent > 0;
        for (; end.ReadEntry(&entry); moved = true) EXPECT_EQ(entry.attempt, read++);
        if (!moved) std::this_thread::yield();
      }
    });
  }
  int64_t appended = 0;
  int64_t next[kSize] = {};
  Post post;
  Entry entry;
  Entry own;
  for (int rank = 1; appended < (kSize - 1) * kEach; rank = rank % (kSize - 1) + 1) {
    while (page.end(0).ReadEntry(&own)) continue;
    if (!page.end(0).ReadPost(rank, &post)) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(post.count, -next[rank]++);
    entry.kind = Entry::Kind::kRetire;
    entry.attempt = static_cast<uint32_t>(appended++);
    while (!page.Append(entry)) {
      while (page.end(0).ReadEntry(&own)) continue;
      std::this_thread::yield();
    }
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace farandole
