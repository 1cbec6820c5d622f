#ifndef FARANDOLE_SERVER_LOOP_JOB_LOOP_FIXTURE_H_
#define FARANDOLE_SERVER_LOOP_JOB_LOOP_FIXTURE_H_

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
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
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "server/loop/job_loop.h"
#include "server/queue/quota_gate.h"
#include "server/store/memory_store.h"
#include "server/store/store_wait.h"

namespace farandole {

inline const JobKey kJob = {"default", "train"};

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

// Calls that wait, where the test says so, until they are let through. Any thread.
class CallGate {
 public:
  using Call = std::function<void()>;

  // Makes the call now, or when it is let through.
  void Pass(Call call) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!is_open_) {
        held_.push_back(std::move(call));
        return arrived_.notify_all();
      }
    }
    call();
  }
  void Hold() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = false;
  }
  size_t held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
  }
  void AwaitHeld(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [&] { return held_.size() >= count; });
  }
  // Lets the oldest one through; the others stay.
  void LetOneThrough() {
    std::unique_lock<std::mutex> lock(mutex_);
    const Call call = std::move(held_.front());
    held_.erase(held_.begin());
    lock.unlock();
    call();
  }
  void Open() {
    // Calls that come meanwhile are behind those that were held.
    while (true) {
      std::vector<Call> held;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        is_open_ = held_.empty();
        if (is_open_) return;
        held.swap(held_);
      }
      for (const Call& call : held) call();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Call> held_;
  bool is_open_ = true;
};

// A memory store whose commits and reads of jobs wait where the test says so.
class GatedStore : public Store {
 public:
  void Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) override {
    ++calls_;
    inner_->Acquire(std::move(owner), std::move(done));
  }
  void AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                   std::function<void(absl::StatusOr<AcquiredRows>)> done) override {
    ++calls_;
    reads_.Pass([this, owner = std::move(owner), keys = std::move(keys), prefixes = std::move(prefixes),
                 done = std::move(done)] { inner_->AcquireRows(owner, keys, prefixes, done); });
  }
  void Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
              std::function<void(absl::Status)> done) override {
    commits_.Pass([this, owner = std::move(owner), owner_revision, batch = std::move(batch), done = std::move(done)] {
      inner_->Commit(owner, owner_revision, batch, done);
    });
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

  void Measure(std::vector<std::string> prefixes, std::function<void(absl::StatusOr<uint64_t>)> done) override {
    inner_->Measure(std::move(prefixes), std::move(done));
  }

  // How many calls took jobs over or read.
  int calls() const { return calls_; }

  CallGate& commits() { return commits_; }
  // Holds back calls of AcquireRows.
  CallGate& reads() { return reads_; }

 private:
  const std::unique_ptr<Store> inner_ = MakeMemoryStore();
  std::atomic<int> calls_{0};
  CallGate commits_;
  CallGate reads_;
};

// A loop over a gated memory store, and its outputs.
class JobLoopTest : public ::testing::Test {
 protected:
  std::unique_ptr<JobLoop> MakeLoop() {
    JobLoopOptions options;
    options.job.silence_limit = absl::Minutes(10);
    options.job.reattach_window = absl::Minutes(10);
    options.idle_linger = idle_linger_;
    options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
    return std::make_unique<JobLoop>(std::move(options), JobLoopDependencies{&store_, &outputs_, &metrics_, &directory_,
                                                                             &tenants_, &gate_, &bytes_});
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

  // The number of the next epoch that is formed; drops the messages before it.
  uint64_t AwaitEpoch() {
    while (true) {
      const Output output = outputs_.Next();
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_epoch_formed()) return send->message->epoch_formed().number();
    }
  }

  // Call 1 of the worker that Form has made.
  static BeginCheckpointRequested BeginOf(int step, const std::string& key) {
    BeginCheckpointRequested begin{1, {}};
    begin.request.set_epoch(1);
    begin.request.set_incarnation(absl::StrFormat("%032x", 1));
    begin.request.set_step(step);
    begin.request.set_idempotency_key(key);
    return begin;
  }

  // Writes that many checkpoints in the epoch that Form has made.
  void WriteCheckpoints(JobLoop* loop, int count) {
    for (int step = 1; step <= count; ++step) {
      const BeginCheckpointRequested begin = BeginOf(step, "key");
      ASSERT_TRUE(loop->Push(kJob, begin).ok());
      const Reply begun = outputs_.NextReply();
      ASSERT_TRUE(begun.status.ok()) << begun.status;
      CommitCheckpointRequested commit{2, {}};
      v1::Checkpoint* checkpoint = commit.request.mutable_checkpoint();
      checkpoint->set_step(step);
      checkpoint->set_token(std::get<v1::BeginCheckpointResponse>(begun.message).token());
      checkpoint->set_path(absl::StrCat("/c/x.t", checkpoint->token(), ".bin"));
      checkpoint->set_sha256(std::string(32, 's'));
      commit.request.set_incarnation(begin.request.incarnation());
      ASSERT_TRUE(loop->Push(kJob, commit).ok());
      const Reply committed = outputs_.NextReply();
      ASSERT_TRUE(committed.status.ok()) << committed.status;
    }
  }

  std::vector<std::string> KeysNow() {
    const auto rows = ScanAndWait(&store_, "");
    std::vector<std::string> keys;
    for (const StoreRow& row : *rows) keys.push_back(row.key);
    return keys;
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
  ByteLedger bytes_;
  GatedStore store_;
  KeptOutputs outputs_;
  Tenants tenants_;
  JobRegistry directory_;
  QuotaGate gate_{&tenants_, &directory_, &SteadyNow};
  Metrics metrics_{"test", absl::UnixEpoch()};
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_LOOP_FIXTURE_H_
