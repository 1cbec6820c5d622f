// Calls that diagnose a job share what its ranks have answered: their number does not decide how often stacks are read.
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"
#include "server/job/job.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job of two ranks that runs.
class SharedEvidenceTest : public testing::Test {
 protected:
  static JobOptions Charged(std::shared_ptr<ByteAccount> account) {
    JobOptions options;
    options.bytes = std::move(account);
    return options;
  }
  // The numbers of the questions that a call has the ranks asked. Its answer, if it comes at once, is in `replies_`.
  std::vector<uint64_t> Ask(bool stacks) {
    std::vector<uint64_t> inquiries;
    replies_.clear();
    const Actions actions = shell_.Step(EvidenceRequested{shell_.NewCall(), stacks});
    for (const Output& output : actions.outputs) {
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_evidence_wanted())
        inquiries.push_back(send->message->evidence_wanted().inquiry());
    }
    TakeReplies(actions);
    return inquiries;
  }
  // The answers to calls are in `replies_`.
  void Answer(size_t rank, uint64_t inquiry, int threads = 1) {
    v1::WorkerMessage message;
    v1::Evidence* const evidence = message.mutable_evidence();
    evidence->set_epoch(1);
    evidence->set_inquiry(inquiry);
    for (int thread = 0; thread < threads; ++thread) {
      v1::ThreadStack* const stack = evidence->add_threads();
      stack->add_frames()->set_function(absl::StrCat("rank", rank));
      for (int frame = 1; frame < 100; ++frame) stack->add_frames()->set_file(std::string(threads > 1 ? 500 : 5, 'x'));
    }
    replies_.clear();
    TakeReplies(shell_.Step(MessageReceived{streams_[rank], message}));
  }
  void Live(int seconds) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_epoch(1);
    for (int second = 0; second < seconds; ++second) {
      for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, beat});
      shell_.Advance(absl::Seconds(1), [this](const Actions& actions) { TakeReplies(actions); });
    }
  }
  void TakeReplies(const Actions& actions) {
    for (const Output& output : actions.outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply == nullptr) continue;
      status_ = reply->status;
      if (const auto* one = std::get_if<v1::DiagnoseResponse>(&reply->message)) replies_.push_back(*one);
    }
  }
  int64_t ChargedBytes() const { return account_->held(ByteKind::kReports); }

  ByteLedger ledger_;
  std::shared_ptr<ByteAccount> account_ = ledger_.Job("acme", "mnist");
  TestShell shell_{Charged(account_)};
  std::vector<StreamId> streams_ = shell_.FormEpoch(2);
  std::vector<v1::DiagnoseResponse> replies_;
  absl::Status status_;
};

TEST_F(SharedEvidenceTest, AllWhoDiagnoseShareOneReadingForFourSeconds) {
  EXPECT_THAT(Ask(true), ElementsAre(1, 1));
  for (int call = 2; call <= 4; ++call) EXPECT_THAT(Ask(true), IsEmpty()) << call;
  EXPECT_THAT(Ask(true), IsEmpty());
  EXPECT_EQ(status_,
            absl::ResourceExhaustedError("job mnist is being diagnosed by 4 calls already; try again in some seconds"));
  Answer(0, 1);
  Answer(1, 1);
  EXPECT_EQ(replies_.size(), 4u);
  for (int second = 0; second < 4; ++second) {
    EXPECT_THAT(Ask(true), IsEmpty()) << second;
    ASSERT_EQ(replies_.size(), 1u) << "from what is kept";
    EXPECT_EQ(replies_[0].stacks_size(), 2);
    EXPECT_EQ(replies_[0].ranks_size(), 2);
    Live(1);
  }
  EXPECT_THAT(Ask(true), ElementsAre(2, 2)) << "a new reading";
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
}

TEST_F(SharedEvidenceTest, AnAnswerIsForThoseThatAskTheSame) {
  EXPECT_THAT(Ask(true), ElementsAre(1, 1));
  EXPECT_THAT(Ask(false), ElementsAre(2, 2));
  Answer(0, 1);
  Answer(1, 1);
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_THAT(Ask(false), IsEmpty());
  EXPECT_TRUE(replies_.empty()) << "it waits for the other question's answer";
  Answer(0, 2);
  Answer(1, 2);
  EXPECT_EQ(replies_.size(), 2u);
}

TEST_F(SharedEvidenceTest, AnAnswerInWhichNobodyHasSpokenIsNotShared) {
  EXPECT_THAT(Ask(true), ElementsAre(1, 1));
  Live(5);
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_THAT(Ask(true), ElementsAre(2, 2));
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
}

TEST_F(SharedEvidenceTest, WhatIsSharedIsChargedWhileItIs) {
  const int64_t before = ChargedBytes();
  Ask(true);
  Answer(0, 1);
  Answer(1, 1);
  EXPECT_GT(ChargedBytes(), before);
  Live(4);
  EXPECT_EQ(ChargedBytes(), before) << "it goes with its time";
  Ask(true);
  Answer(0, 2);
  Answer(1, 2);
  EXPECT_GT(ChargedBytes(), before);
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_LE(ChargedBytes(), before) << "and with its epoch";
}

TEST_F(SharedEvidenceTest, WhatIsSharedHasABound) {
  Ask(true);
  Answer(0, 1, 64);
  Answer(1, 1, 64);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(replies_[0].ranks(1).has_evidence()) << "the one that has asked gets all";
  Ask(true);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(replies_[0].ranks(0).has_evidence());
  EXPECT_EQ(replies_[0].ranks(1).silence(),
            "left out: of an answer that several share, 4 MiB of evidence is kept, first that of the ranks that others "
            "wait for");
  EXPECT_EQ(replies_[0].stacks_size(), 2) << "stacks of all are told";
}

}  // namespace
}  // namespace farandole
