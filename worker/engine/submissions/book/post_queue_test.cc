#include "worker/engine/submissions/book/post_queue.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// Takes posts while it has room, and keeps their slots.
class SmallChannel final : public ReadyChannel {
 public:
  bool TryPost(const Post& post) override {
    if (room == 0) return false;
    --room;
    slots.push_back(post.slot);
    return true;
  }
  bool ReadEntry(Entry*) override { return false; }
  bool HasNews() const override { return false; }
  bool ReadPost(int, Post*) override { return false; }
  bool TryAppend(Entry&, absl::Span<const int>) override { return false; }
  bool HasLeft(int) const override { return false; }
  bool IsNeeded() const override { return false; }
  Doorbell& doorbell() override { return bell_; }
  void Beat(const Pulse&) override {}
  Pulse ReadPulse(int) const override { return {}; }
  RankRecord* record(int) const override { return nullptr; }
  void StateEnd(const absl::Status&) override {}
  absl::Status StatedEnd(int) const override { return absl::OkStatus(); }

  int room = 0;
  std::vector<uint32_t> slots;

 private:
  Doorbell bell_;
};

Post PostIn(uint32_t slot, Post::Kind kind = Post::Kind::kSubmit) {
  Post post;
  post.slot = slot;
  post.kind = kind;
  return post;
}

TEST(PostQueueTest, PostsThatDoNotFitFollowInTheirOrder) {
  SmallChannel channel;
  PostQueue queue(&channel);
  channel.room = 1;
  for (uint32_t slot = 1; slot <= 3; ++slot) queue.Send(PostIn(slot), /*is_offering=*/false);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_FALSE(queue.Flush(false));
  channel.room = 1;
  EXPECT_TRUE(queue.Flush(false));
  channel.room = 5;
  queue.Send(PostIn(4), false);
  EXPECT_EQ(channel.slots, (std::vector<uint32_t>{1, 2})) << "none passes those that wait";
  EXPECT_TRUE(queue.Flush(false));
  EXPECT_EQ(channel.slots, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(PostQueueTest, WhileTheRankOffersOnlyItsLeavePasses) {
  SmallChannel channel;
  PostQueue queue(&channel);
  channel.room = 5;
  queue.Send(PostIn(1), /*is_offering=*/true);
  EXPECT_FALSE(queue.Flush(true));
  queue.SendFirst(PostIn(9, Post::Kind::kLeave), true);
  EXPECT_EQ(channel.slots, (std::vector<uint32_t>{9}));
  queue.SendFirst(PostIn(2), /*is_offering=*/false);
  EXPECT_EQ(channel.slots, (std::vector<uint32_t>{9, 2, 1})) << "the declined submission goes first";
}

}  // namespace
}  // namespace farandole
