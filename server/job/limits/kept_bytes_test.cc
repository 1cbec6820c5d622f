// Bytes that a job keeps for its workers count as those of its tenant.

#include <malloc.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"
#include "server/job/job.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

// Besides, a job may have so much of a fixed size.
constexpr int64_t kSlack = 2 << 20;

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class KeptBytesTest : public testing::Test {
 protected:
  void Form(uint32_t size) {
    options_.silence_limit = absl::Hours(24);
    options_.bytes = account_;
    shell_ = std::make_unique<TestShell>(options_);
    streams_ = shell_->FormEpoch(static_cast<int>(size));
    heap_ = HeapBytes();
    charged_ = account_->held(BytePool::kKept);
  }
  // False: the rank's stream was closed.
  bool Say(uint32_t rank, const v1::WorkerMessage& message) {
    shell_->Step(MessageReceived{streams_[rank], message});
    return shell_->IsOpen(streams_[rank]);
  }
  void Reattach(uint32_t rank, const std::vector<uint32_t>& groups) {
    shell_->Close(streams_[rank], "cut");
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(IncarnationOf(absl::StrCat("w", rank)));
    hello.set_epoch(1);
    for (const uint32_t group : groups) hello.add_groups()->set_number(group);
    streams_[rank] = shell_->NewStream();
    shell_->Step(StreamOpened{streams_[rank], hello});
  }
  static v1::WorkerMessage Ready(const std::string& name, uint32_t group, int64_t dim) {
    v1::WorkerMessage message;
    message.mutable_ready()->set_name(absl::StrCat(std::string(500, 'n'), name));
    message.mutable_ready()->set_group(group);
    message.mutable_ready()->set_op(v1::OP_TYPE_ALLREDUCE);
    message.mutable_ready()->add_shape(dim);
    return message;
  }
  v1::WorkerMessage GroupRequest(uint32_t without, uint64_t ordinal) const {
    v1::WorkerMessage message;
    message.mutable_group_request()->set_epoch(1);
    message.mutable_group_request()->set_ordinal(ordinal);
    for (uint32_t rank = 0; rank < streams_.size(); ++rank) {
      if (rank != without) message.mutable_group_request()->add_ranks(rank);
    }
    return message;
  }
  int64_t Grown() const { return HeapBytes() - heap_; }
  int64_t Charged() const { return account_->held(BytePool::kKept) - charged_; }

  JobOptions options_;
  ByteLedger ledger_;
  std::shared_ptr<ByteAccount> account_ = ledger_.Job("acme", "mnist");
  std::unique_ptr<TestShell> shell_;
  std::vector<StreamId> streams_;
  int64_t heap_ = 0;
  int64_t charged_ = 0;
};

TEST_F(KeptBytesTest, ACatalogueOfCheckpointsIsChargedAndAFullAccountTakesNoMore) {
  ByteLimits limits;
  limits.tenant_kept = 2 << 20;
  ByteLedger ledger(limits);
  account_ = ledger.Job("acme", "mnist");
  Form(1);
  absl::Status last;
  int64_t step = 0;
  for (; last.ok() && step < 5000; ++step) {
    BeginCheckpointRequested begin{shell_->NewCall(), {}};
    begin.request.set_incarnation(IncarnationOf("w0"));
    begin.request.set_epoch(1);
    begin.request.set_step(step);
    begin.request.set_idempotency_key("k");
    Actions actions = shell_->Step(begin);
    const Reply& reply = std::get<Reply>(actions.outputs.back());
    last = reply.status;
    if (!last.ok()) break;
    const uint64_t token = std::get<v1::BeginCheckpointResponse>(reply.message).token();
    CommitCheckpointRequested commit{shell_->NewCall(), {}};
    commit.request.set_incarnation(IncarnationOf("w0"));
    commit.request.mutable_checkpoint()->set_step(step);
    commit.request.mutable_checkpoint()->set_token(token);
    commit.request.mutable_checkpoint()->set_path(absl::StrCat("/", std::string(4000, 'p'), ".t", token, "."));
    commit.request.mutable_checkpoint()->set_sha256(std::string(32, 's'));
    actions = shell_->Step(commit);
    ASSERT_TRUE(std::get<Reply>(actions.outputs.back()).status.ok());
  }
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_GT(account_->held(ByteKind::kCheckpoints), 3 << 19);
  EXPECT_LE(account_->held(ByteKind::kCheckpoints), 2 << 20) << "a job has half of what its tenant has";
  EXPECT_GT(step, 400);
  // Another life of the coordinator has it, whatever room there is.
  const int64_t held = account_->held(ByteKind::kCheckpoints);
  shell_->Restart([](const Actions&) {});
  EXPECT_EQ(account_->held(ByteKind::kCheckpoints), held);
  shell_ = nullptr;
  EXPECT_EQ(account_->held(BytePool::kCatalogues), 0);
}

TEST_F(KeptBytesTest, OfARefusedNameNothingIsKept) {
  Form(16);
  for (uint32_t rank = 0; rank < 16; ++rank) {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Say(rank, Ready(absl::StrCat(i), 7, 1)));
    Reattach(rank, {});
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Say(rank, Ready(absl::StrCat(i), 7, 1)));
  }
  EXPECT_LT(Grown(), kSlack);
}

TEST_F(KeptBytesTest, MismatchesThatRanksMayNotHaveGotAreCharged) {
  Form(2);
  for (int i = 0; i < 4000; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(Say(rank, Ready(absl::StrCat(i), 0, 1 + rank)));
  }
  EXPECT_GT(Grown(), kSlack) << "it tells those that come again";
  EXPECT_LT(Grown(), Charged() + kSlack);
}

TEST_F(KeptBytesTest, OfANameThatIsOverNothingIsKept) {
  options_.max_slots = 64;
  Form(1);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(Say(0, Ready(absl::StrCat("slot", i), 0, 1)));
  const int64_t before = Grown();
  for (uint32_t i = 0; i < 20'000; ++i) {
    // It waits for a slot, until the rank contradicts itself.
    v1::WorkerMessage message = Ready(absl::StrCat(i), 0, 1);
    message.mutable_ready()->set_ordinal(i);
    ASSERT_TRUE(Say(0, message));
    message.mutable_ready()->set_dtype(static_cast<v1::DType>(99));
    ASSERT_TRUE(Say(0, message));
  }
  EXPECT_LT(Grown() - before, Charged() + kSlack);
}

TEST_F(KeptBytesTest, OfNamesThatOthersHaveJoinedForNothingIsKeptTwice) {
  Form(2);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Say(0, Ready(absl::StrCat(i), 0, 1)));
  for (uint32_t joins = 1; joins <= 50; ++joins) {
    v1::WorkerMessage join = Ready("join", 0, 1);
    join.mutable_ready()->set_op(v1::OP_TYPE_JOIN);
    ASSERT_TRUE(Say(1, join));
    v1::WorkerMessage on = Ready(absl::StrCat("on", joins), 0, 1);
    on.mutable_ready()->set_joins(joins);
    ASSERT_TRUE(Say(1, on));
  }
  EXPECT_LT(Grown(), Charged() + kSlack);
}

TEST_F(KeptBytesTest, GroupsThatSomeRanksHaveAskedForAreCharged) {
  Form(256);
  for (uint32_t rank = 1; rank < 256; ++rank) {
    for (uint64_t ordinal = 1; ordinal <= JobOptions().max_groups; ++ordinal) {
      if (!Say(rank, GroupRequest(rank, ordinal))) break;
    }
  }
  EXPECT_LT(Grown(), Charged() + kSlack);
}

TEST_F(KeptBytesTest, GroupsThatRanksMayNotKnowAreCharged) {
  Form(128);
  for (uint64_t ordinal = 1; ordinal <= 128; ++ordinal) {
    for (uint32_t rank = 0; rank < 128; ++rank) ASSERT_TRUE(Say(rank, GroupRequest(0, ordinal)));
  }
  EXPECT_LT(Grown(), Charged() + kSlack);
  for (uint32_t rank = 0; rank < 128; ++rank) Reattach(rank, {});
  EXPECT_LT(Grown(), Charged() + kSlack);
}

TEST_F(KeptBytesTest, OfGroupsThatNeverWereNothingIsKept) {
  Form(16);
  std::vector<uint32_t> groups;
  for (uint32_t group = 1; group <= 4096; ++group) groups.push_back(group);
  for (uint32_t rank = 0; rank < 16; ++rank) Reattach(rank, groups);
  EXPECT_LT(Grown(), kSlack);
}

TEST_F(KeptBytesTest, TensorsOfAStallAreCharged) {
  Form(512);
  for (uint32_t rank = 0; rank < 512; ++rank) {
    v1::WorkerMessage message;
    message.mutable_stall_report()->set_epoch(1);
    for (int i = 0; i < 64; ++i) {
      v1::PendingTensor* const pending = message.mutable_stall_report()->add_pending();
      pending->set_name(absl::StrCat(std::string(500, 'n'), rank * 64 + static_cast<uint32_t>(i)));
      pending->set_age_ms(120'000);
    }
    ASSERT_TRUE(Say(rank, message));
  }
  EXPECT_LT(Grown(), Charged() + kSlack);
  shell_->Advance(absl::Seconds(3), [](const Actions&) {});
  EXPECT_LT(Grown(), Charged() + kSlack);
}

}  // namespace
}  // namespace farandole
