// Tenants share a loop's time, and what is on its way is counted.

#include <future>

#include "gtest/gtest.h"
#include "server/loop/event_bytes.h"
#include "server/loop/job_loop_fixture.h"

namespace farandole {
namespace {

class FairnessTest : public JobLoopTest {
 protected:
  int64_t Held(ByteKind kind) const { return bytes_.process().held(kind); }

  // From the call on until the result is set the loop does nothing.
  static std::promise<void> Stop(JobLoop* loop) {
    std::promise<void> go_on;
    loop->Restore(kJob, [wait = go_on.get_future().share()](const absl::Status&) { wait.wait(); });
    return go_on;
  }
};

TEST_F(FairnessTest, ATenantWithManyEventsDoesNotMakeAnotherWait) {
  constexpr CallId kQuietCall = 1'000'000;
  constexpr CallId kFlood = 20'000;
  const JobKey quiet = {"quiet", "train"};
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(quiet, JoinOf(2, 0, 2)).ok());
  ASSERT_TRUE(outputs_.NextReply().status.ok());
  std::promise<void> go_on = Stop(loop.get());
  for (CallId call = 10; call < 10 + kFlood; ++call) ASSERT_TRUE(loop->Push(kJob, JobInspected{call}).ok());
  ASSERT_TRUE(loop->Push(quiet, JobInspected{kQuietCall}).ok());
  go_on.set_value();
  CallId before = 0;
  while (outputs_.NextReply().call != kQuietCall) ++before;
  EXPECT_LT(before, kFlood / 10);
  for (; before < kFlood; ++before) outputs_.NextReply();
}

TEST_F(FairnessTest, EventsAreChargedUntilTheirStepAndMessagesUntilTheyAreSent) {
  auto loop = MakeLoop();
  Form(loop.get());
  std::promise<void> go_on = Stop(loop.get());
  const Event event = JobInspected{7};
  ByteCharge charge;
  ASSERT_TRUE(bytes_.Job(kJob.tenant, kJob.job)->Take(ByteKind::kEvents, BytesOf(event), ClassOf(event), &charge).ok());
  ASSERT_TRUE(loop->Push(kJob, event, std::move(charge)).ok());
  EXPECT_EQ(Held(ByteKind::kEvents), BytesOf(event));
  go_on.set_value();
  ASSERT_TRUE(outputs_.NextReply().status.ok());

  v1::WorkerMessage ready;
  ready.mutable_ready()->set_name("grad/0");
  ready.mutable_ready()->set_op(v1::OP_TYPE_ALLREDUCE);
  ready.mutable_ready()->set_dtype(v1::DTYPE_F32);
  ready.mutable_ready()->set_prescale(1);
  ready.mutable_ready()->set_postscale(1);
  ASSERT_TRUE(loop->Push(kJob, MessageReceived{1, ready}).ok());
  {
    const Output assigned = outputs_.Next();
    const auto* send = std::get_if<Send>(&assigned);
    ASSERT_NE(send, nullptr);
    ASSERT_TRUE(send->message->has_slot_assigned());
    EXPECT_EQ(Held(ByteKind::kOutgoing), BytesOf(*send->message));
  }
  EXPECT_EQ(Held(ByteKind::kOutgoing), 0);
  EXPECT_EQ(Held(ByteKind::kEvents), 0);
  EXPECT_GT(Held(ByteKind::kNames), 0) << "the slot";
  loop.reset();
  EXPECT_EQ(Held(ByteKind::kNames), 0);
}

// One message to many workers is in memory once.
TEST_F(FairnessTest, AMessageToAllRanksIsChargedOnce) {
  const auto loop = MakeLoop();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(loop->Push(kJob, JoinOf(rank + 1, rank, 3)).ok());
    ASSERT_TRUE(outputs_.NextReply().status.ok());
  }
  for (uint32_t rank = 0; rank < 3; ++rank) ASSERT_TRUE(loop->Push(kJob, StreamOf(rank + 1, rank)).ok());
  std::vector<Output> formed;
  while (formed.size() < 3) {
    Output output = outputs_.Next();
    const auto* send = std::get_if<Send>(&output);
    if (send != nullptr && send->message->has_epoch_formed()) formed.push_back(std::move(output));
  }
  EXPECT_EQ(Held(ByteKind::kOutgoing), BytesOf(*std::get<Send>(formed[0]).message));
  formed.resize(1);
  EXPECT_GT(Held(ByteKind::kOutgoing), 0);
  formed.clear();
  EXPECT_EQ(Held(ByteKind::kOutgoing), 0);
}

TEST(EventBytesTest, AnEventCountsWithItsTexts) {
  const std::string text(4096, 'x');
  const int64_t least = 4096;
  EXPECT_GE(BytesOf(Event(LoggedListed{1, std::vector<std::string>(100, text)})), 100 * least);
  EXPECT_GE(BytesOf(Event(StreamClosed{1, text})), least);
  EXPECT_GE(BytesOf(Event(DeleteCheckpointRequested{1, text, 2})), least);
  EXPECT_GE(BytesOf(Event(CheckpointAsked{1, text})), least);
  EXPECT_GE(BytesOf(Event(AbortRequested{1, text})), least);
  DrainRequested drain;
  drain.hostname = drain.reason = text;
  for (uint32_t i = 0; i < 1024; ++i) drain.launched.insert(i);
  EXPECT_GE(BytesOf(Event(drain)), 2 * least + 4096);
}

}  // namespace
}  // namespace farandole
