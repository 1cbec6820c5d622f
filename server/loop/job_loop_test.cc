#include "server/loop/job_loop.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/job_loops.h"
#include "server/store/memory_store.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

const JobKey kJob = {"default", "train"};

// Keeps what leaves the loop, in its order.
class KeptOutputs : public OutputReceiver {
 public:
  void Deliver(Output output) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    outputs_.push_back(std::move(output));
    arrived_.notify_all();
  }
  // The next output; waits for it.
  Output Next() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [this] { return !outputs_.empty(); });
    Output output = std::move(outputs_.front());
    outputs_.pop_front();
    return output;
  }
  Reply NextReply() {
    Output output = Next();
    while (!std::holds_alternative<Reply>(output)) output = Next();
    return std::get<Reply>(std::move(output));
  }
  bool IsEmpty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outputs_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Output> outputs_;
};

// A store whose commits wait until they are let through, or fail as the test says; everything else goes on to a memory
// store.
class GatedStore : public Store {
 public:
  void Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) override {
    ++calls_;
    inner_->Acquire(std::move(owner), std::move(done));
  }
  void AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                   std::function<void(absl::StatusOr<AcquiredRows>)> done) override {
    ++calls_;
    inner_->AcquireRows(std::move(owner), std::move(keys), std::move(prefixes), std::move(done));
  }
  void Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
              std::function<void(absl::Status)> done) override {
    auto commit = [this, owner = std::move(owner), owner_revision, batch = std::move(batch),
                   done = std::move(done)]() mutable {
      inner_->Commit(std::move(owner), owner_revision, std::move(batch), std::move(done));
    };
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_open_) {
      lock.unlock();
      commit();
      return;
    }
    held_.push_back(std::move(commit));
    arrived_.notify_all();
  }
  void Scan(std::string prefix, std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override {
    ++calls_;
    inner_->Scan(std::move(prefix), std::move(done));
  }
  void ScanPage(std::string prefix, std::string after, size_t most,
                std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override {
    ++calls_;
    inner_->ScanPage(std::move(prefix), std::move(after), most, std::move(done));
  }

  // Those that take jobs over or read.
  int calls() const { return calls_; }

  void Hold() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = false;
  }
  void AwaitHeld(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [&] { return held_.size() >= count; });
  }
  void Open() {
    std::vector<std::function<void()>> held;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_open_ = true;
      held.swap(held_);
    }
    for (const auto& commit : held) commit();
  }

 private:
  const std::unique_ptr<Store> inner_ = MakeMemoryStore();
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::function<void()>> held_;
  bool is_open_ = true;
};

class JobLoopTest : public ::testing::Test {
 protected:
  std::unique_ptr<JobLoop> MakeLoop() {
    JobLoopOptions options;
    options.job.silence_limit = absl::Minutes(10);
    options.job.reattach_window = absl::Minutes(10);
    options.idle_linger = idle_linger_;
    options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
    return std::make_unique<JobLoop>(std::move(options),
                                     JobLoopSurroundings{&store_, &outputs_, &metrics_, &directory_, &tenants_});
  }

  static JoinRequested JoinOf(CallId call, uint32_t number, uint32_t wanted_size) {
    v1::JoinRequest request;
    request.set_job(kJob.job);
    request.mutable_member()->set_incarnation(absl::StrFormat("%032x", number + 1));
    request.mutable_member()->set_host_id("host");
    request.mutable_member()->set_pid(getpid());
    request.set_wanted_size(wanted_size);
    request.set_launch_index(number);
    request.set_protocol_version(1);
    request.set_join_timeout_ms(60'000);
    request.set_stall_warning_ms(60'000);
    return JoinRequested{call, std::move(request)};
  }

  static StreamOpened StreamOf(StreamId stream, uint32_t number, uint64_t epoch = 0) {
    v1::Hello hello;
    hello.set_job(kJob.job);
    hello.set_incarnation(absl::StrFormat("%032x", number + 1));
    hello.set_epoch(epoch);
    return StreamOpened{stream, std::move(hello)};
  }

  static MessageReceived LeaveOn(StreamId stream) {
    v1::WorkerMessage message;
    message.mutable_leave()->set_epoch(1);
    return MessageReceived{stream, std::move(message)};
  }

  // One worker's job of size 1 whose first epoch runs on stream 1.
  void Form(JobLoop* loop) {
    ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 1)).ok());
    const Reply joined = outputs_.NextReply();
    ASSERT_TRUE(joined.status.ok()) << joined.status;
    ASSERT_TRUE(loop->Push(kJob, StreamOf(1, 0)).ok());
    AwaitEpoch();
  }

  void AwaitEpoch() {
    while (true) {
      const Output output = outputs_.Next();
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_epoch_formed()) return;
    }
  }

  // The end of `stream`; drops the messages before it.
  absl::Status AwaitClose(StreamId stream) {
    while (true) {
      const Output output = outputs_.Next();
      const auto* close = std::get_if<CloseStream>(&output);
      if (close != nullptr && close->stream == stream) return close->status;
    }
  }

  absl::Duration idle_linger_ = absl::Minutes(5);
  GatedStore store_;
  KeptOutputs outputs_;
  Tenants tenants_;
  JobRegistry directory_{&tenants_};
  Metrics metrics_{"test", absl::UnixEpoch()};
};

TEST_F(JobLoopTest, NothingButAJoinMakesAJob) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JobInspected{7}).ok());
  const Reply reply = outputs_.NextReply();
  EXPECT_EQ(reply.call, 7u);
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(reply.status.message(), HasSubstr("tenant default has no job train"));
  ASSERT_TRUE(loop->Push(kJob, StreamOf(3, 0)).ok());
  EXPECT_EQ(AwaitClose(3).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(ScanAndWait(&store_, "").value().empty());
}

TEST_F(JobLoopTest, ARefusedJoinOrLaunchLeavesNothing) {
  const auto loop = MakeLoop();
  JoinRequested wrong = JoinOf(1, 0, 1);
  wrong.request.set_protocol_version(99);
  JoinRequested many = JoinOf(2, 0, kDefaultMaxWorkers + 1);
  JobClaimed nameless{3, {}};
  nameless.request.set_job(kJob.job);
  for (const Event& event : std::vector<Event>{wrong, many, nameless}) {
    ASSERT_TRUE(loop->Push(kJob, event).ok());
    EXPECT_FALSE(outputs_.NextReply().status.ok());
  }
  EXPECT_EQ(ScanAndWait(&store_, "").value().size(), 0u);
  EXPECT_FALSE(directory_.Knows(kJob));
}

TEST_F(JobLoopTest, AClaimTakesRoomInTheQuotaUntilItEnds) {
  v1::TenantRecord tenant;
  tenant.set_name("default");
  tenant.set_max_jobs(1);
  tenant.set_max_workers(2);
  ASSERT_TRUE(tenants_.Put(tenant).ok());
  const auto loop = MakeLoop();
  const auto claim = [&](const std::string& job, bool release) {
    JobClaimed event{1, {}};
    event.request.set_job(job);
    event.request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    event.request.mutable_launch()->set_who("a test");
    event.request.set_most_workers(1);
    event.request.set_release(release);
    EXPECT_TRUE(loop->Push({"default", job}, event).ok());
    return outputs_.NextReply().status;
  };
  EXPECT_TRUE(claim(kJob.job, false).ok());
  EXPECT_EQ(claim("other", false).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(loop->Push(kJob, JoinOf(2, 0, 3)).ok());
  EXPECT_THAT(outputs_.NextReply().status.message(), HasSubstr("it wants 3 workers"));
  ASSERT_TRUE(loop->Push(kJob, JobInspected{3}).ok());
  const absl::Status shown = outputs_.NextReply().status;
  EXPECT_EQ(shown.code(), absl::StatusCode::kNotFound) << shown;
  EXPECT_TRUE(claim(kJob.job, true).ok());
  EXPECT_TRUE(claim("other", false).ok());
}

TEST_F(JobLoopTest, AJobIsTakenOverAndReadByOneCall) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 2)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  EXPECT_EQ(store_.calls(), 1);
  ASSERT_TRUE(loop->Push(kJob, JoinOf(2, 1, 2)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  EXPECT_EQ(store_.calls(), 1) << "the job is in memory";
}

TEST_F(JobLoopTest, WhatMustBeDurableIsWrittenBeforeTheOutputsLeave) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 1)).ok());
  ASSERT_TRUE(outputs_.NextReply().status.ok());
  store_.Hold();
  ASSERT_TRUE(loop->Push(kJob, StreamOf(1, 0)).ok());
  store_.AwaitHeld(1);
  EXPECT_TRUE(outputs_.IsEmpty()) << "the epoch is not durable yet";
  store_.Open();
  AwaitEpoch();
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(ScanAndWait(&store_, "job/default/train").value().at(0).value));
  EXPECT_EQ(record.epoch().number(), 1u);
}

TEST_F(JobLoopTest, OutputsOfLaterStepsQueueBehindACommitWhileStepsGoOn) {
  const auto loop = MakeLoop();
  Form(loop.get());
  store_.Hold();
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{9}).ok());
  store_.AwaitHeld(1);
  EXPECT_TRUE(outputs_.IsEmpty());
  store_.Open();
  EXPECT_TRUE(AwaitClose(1).ok());
  const Reply reply = outputs_.NextReply();
  EXPECT_EQ(reply.call, 9u);
  EXPECT_EQ(std::get<v1::GetJobResponse>(reply.message).summary().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(JobLoopTest, ARefusedCommitDropsTheJobAndEndsItsStreamsAborted) {
  const auto loop = MakeLoop();
  Form(loop.get());
  // Another coordinator takes the job over.
  ASSERT_TRUE(AcquireAndWait(&store_, kJob.Text()).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  const absl::Status end = AwaitClose(1);
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted) << end;
  EXPECT_THAT(end.message(), HasSubstr("default/train was taken over"));
}

TEST_F(JobLoopTest, AStoppedLoopLeavesItsJobToTheNextOne) {
  {
    const auto loop = MakeLoop();
    Form(loop.get());
    loop->Stop();
    EXPECT_EQ(loop->Push(kJob, StreamClosed{1, "broken"}).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(outputs_.IsEmpty()) << "streams stay open for whoever owns them";
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, StreamOf(2, 0, /*epoch=*/1)).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(2)).ok());
  EXPECT_TRUE(AwaitClose(2).ok());
}

TEST_F(JobLoopTest, AnIdleJobIsDroppedAndReadAgainWhenAskedFor) {
  idle_linger_ = absl::ZeroDuration();
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  EXPECT_TRUE(AwaitClose(1).ok());
  const uint64_t before = AcquireAndWait(&store_, "probe").value();
  // Dropped or not yet: the answer is that of the durable record.
  for (CallId call = 10; call < 20; ++call) {
    ASSERT_TRUE(loop->Push(kJob, JobInspected{call}).ok());
    const Reply reply = outputs_.NextReply();
    EXPECT_EQ(reply.call, call);
    EXPECT_EQ(std::get<v1::GetJobResponse>(reply.message).summary().state(), v1::JOB_STATE_FINISHED);
  }
  EXPECT_GT(AcquireAndWait(&store_, "probe").value(), before);
}

TEST_F(JobLoopTest, AStreamThatEndedIsClosedAfterWhatTheJobDecided) {
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, StreamClosed{1, "its stream broke"}).ok());
  EXPECT_EQ(AwaitClose(1).code(), absl::StatusCode::kCancelled);
}

TEST_F(JobLoopTest, MessagesOfAStreamThatTheJobEndedChangeNothing) {
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  EXPECT_TRUE(AwaitClose(1).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  ASSERT_TRUE(loop->Push(kJob, StreamClosed{1, "its stream broke"}).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{9}).ok());
  EXPECT_EQ(outputs_.NextReply().call, 9u);
}

TEST_F(JobLoopTest, ATenantsQuotaBoundsItsActiveJobs) {
  v1::TenantRecord tenant;
  tenant.set_name("default");
  tenant.set_max_jobs(1);
  tenant.set_max_workers(2);
  ASSERT_TRUE(tenants_.Put(tenant).ok());
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push({"default", "wide"}, JoinOf(1, 0, 3)).ok());
  const Reply wide = outputs_.NextReply();
  EXPECT_EQ(wide.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(wide.status.message(), HasSubstr("it wants 3 workers"));
  Form(loop.get());
  ASSERT_TRUE(loop->Push({"default", "second"}, JoinOf(2, 0, 1)).ok());
  const Reply second = outputs_.NextReply();
  EXPECT_EQ(second.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status.message(), HasSubstr("runs 1 jobs, its quota is 1"));
}

TEST_F(JobLoopTest, ARowThatCannotBeReadIsSaidAndTheJobIsNotMadeAnew) {
  const uint64_t revision = AcquireAndWait(&store_, "spoiler").value();
  ASSERT_TRUE(CommitAndWait(&store_, "spoiler", revision, StoreBatch{{}, {{"job/default/train", "\xff\xff"}}}).ok());
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 1)).ok());
  EXPECT_EQ(outputs_.NextReply().status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(JobLoopTest, SeveralLoopsShareTheJobs) {
  JobLoopOptions options;
  options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
  JobLoops loops(3, options, JobLoopSurroundings{&store_, &outputs_, &metrics_, &directory_, &tenants_});
  constexpr CallId kJobs = 20;
  for (CallId call = 1; call <= kJobs; ++call) {
    ASSERT_TRUE(loops.Push({"default", absl::StrCat("job", call)}, JoinOf(call, 0, 1)).ok());
  }
  for (CallId call = 1; call <= kJobs; ++call) {
    const Reply reply = outputs_.NextReply();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  }
  loops.Stop();
  EXPECT_EQ(loops.mailbox_depth(), 0u);
  EXPECT_EQ(directory_.ActiveKeys().size(), static_cast<size_t>(kJobs));
}

}  // namespace
}  // namespace farandole
