// Throws thousands of arbitrary events at a Job, elastic or not, from seeds, and checks what it must never do:
// TestShell writes down each broken promise (ranks a permutation with hosts together, epochs and tokens that only grow,
// slots that are never given twice, each call answered once, nothing sent to a closed stream, nothing sent that is not
// durable, batches within the store's bounds).
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/job/rules/bounds.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed, bool is_elastic) : random_(seed), shell_(Options()), is_elastic_(is_elastic) {}

  void Play(int events) {
    for (int i = 0; i < events && shell_.broken().empty(); ++i) PlayOne();
  }
  const TestShell& shell() const { return shell_; }
  uint64_t epochs() const { return epochs_; }
  uint64_t slots() const { return slots_; }
  uint64_t groups() const { return groups_; }

 private:
  struct Worker {
    std::string incarnation;
    std::string host;
    StreamId stream = 0;
    uint64_t epoch = 0;
    // Messages that it got in this epoch.
    std::map<uint32_t, v1::SlotAssigned> slots;
    std::map<uint32_t, v1::Group> groups;
    uint64_t requests = 0;
  };

  static JobOptions Options() {
    JobOptions options;
    options.max_slots = 8;
    options.max_groups = 3;
    return options;
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  Worker& SomeWorker() {
    if (workers_.empty() || (OneIn(100) && workers_.size() < 4000)) AddWorker();
    // Mostly one of the last run, so that something comes about.
    if (run_ + 3 <= workers_.size() && !OneIn(10)) return workers_[run_ + Below(3)];
    const uint64_t recent = std::min<uint64_t>(workers_.size(), 12);
    return workers_[workers_.size() - 1 - Below(recent)];
  }
  void AddWorker() {
    Worker worker;
    worker.incarnation = absl::StrCat(absl::Hex(workers_.size() + 1, absl::kZeroPad16), absl::Hex(0, absl::kZeroPad16));
    worker.host = std::string(1, static_cast<char>('a' + Below(3)));
    workers_.push_back(worker);
  }
  Worker* OwnerOf(StreamId stream) {
    for (auto it = workers_.rbegin(); it != workers_.rend(); ++it) {
      if (it->stream == stream) return &*it;
    }
    return nullptr;
  }
  std::string Name() { return std::string(1, static_cast<char>('a' + Below(OneIn(5) ? 12 : 4))); }
  uint64_t EpochFor(const Worker& worker) { return OneIn(30) ? Below(5) : worker.epoch; }

  void See(const Actions& actions) {
    for (const Output& output : actions.outputs) {
      const auto* send = std::get_if<Send>(&output);
      Worker* worker = send == nullptr ? nullptr : OwnerOf(send->stream);
      // Now and then a message is lost with its stream.
      if (worker == nullptr || OneIn(50)) continue;
      const v1::CoordinatorMessage& message = *send->message;
      if (message.has_epoch_formed()) worker->epoch = message.epoch_formed().number();
      if (message.has_slot_assigned()) worker->slots[message.slot_assigned().slot()] = message.slot_assigned();
      if (message.has_slot_assigned()) ++slots_;
      epochs_ = std::max(epochs_, worker->epoch);
      if (!message.has_group_assigned() || !message.group_assigned().error().empty()) continue;
      const v1::Group& group = message.group_assigned().group();
      if (group.ranks().empty()) worker->groups.erase(group.number());
      if (!group.ranks().empty()) worker->groups[group.number()] = group;
      ++groups_;
    }
  }

  void PlayOne() {
    const uint64_t dice = Below(1000);
    if (dice < 30) return Join(&SomeWorker());
    if (dice < 60) return Hello(&SomeWorker());
    if (dice < 110) return StartRun();
    if (dice < 120) return Close();
    if (dice < 220)
      return shell_.Advance(absl::Milliseconds(Below(OneIn(200) ? 20000 : 300)), [this](const Actions& a) { See(a); });
    if (dice < 223) return Restart();
    if (dice < 224) return See(shell_.Step(AbortRequested{shell_.NewCall(), "x", dice % 2 == 0}));
    if (dice < 226) return shell_.Oversleep(absl::Milliseconds(Below(9000)));
    if (dice < 227) return Drain();
    if (dice < 229) return ReportExit();
    if (dice < 260) return Checkpoint();
    if (dice < 270) return See(shell_.Step(JobInspected{shell_.NewCall()}));
    Say();
  }

  // Three new workers do as they should.
  void StartRun() {
    if (shell_.job().Summary().state() == v1::JOB_STATE_RUNNING && !OneIn(20)) return;
    run_ = workers_.size();
    for (int i = 0; i < 3; ++i) AddWorker();
    for (size_t i = run_; i < run_ + 3; ++i) Join(&workers_[i]);
    for (size_t i = run_; i < run_ + 3; ++i) Hello(&workers_[i]);
  }

  void Restart() {
    shell_.Restart([this](const Actions& a) { See(a); });
    for (size_t i = run_; i < workers_.size() && i < run_ + 3; ++i) {
      if (!OneIn(10)) Hello(&workers_[i]);
    }
  }

  void Drain() {
    DrainRequested event{shell_.NewCall(), std::nullopt, "a", {}, "\xFF"};
    if (OneIn(2)) event.rank = Below(4);
    See(shell_.Step(event));
  }

  void ReportExit() {
    ExitReported event{shell_.NewCall(), {}};
    event.request.set_launch_index(Below(OneIn(4) ? 4 : 4000));
    event.request.set_failed(OneIn(2));
    event.request.set_host(OneIn(3) ? "\xFF" : "a");
    See(shell_.Step(event));
  }

  void FillElastic(v1::JoinRequest* request) {
    request->mutable_elastic()->set_min_size(OneIn(50) ? Below(5) : 2);
    request->mutable_elastic()->set_max_size(5);
    request->mutable_elastic()->set_join_window_ms(100);
    request->mutable_elastic()->set_shortage_limit_ms(3000);
    request->mutable_elastic()->set_reset_limit(4);
    request->mutable_elastic()->set_least_cooldown_ms(50);
    request->mutable_elastic()->set_most_cooldown_ms(500);
    if (!workers_.empty() && OneIn(2)) request->set_predecessor(SomeWorker().incarnation);
  }

  void Join(Worker* joining) {
    const Worker& worker = *joining;
    JoinRequested event{shell_.NewCall(), {}};
    event.request.set_job("mnist");
    event.request.mutable_member()->set_incarnation(worker.incarnation);
    event.request.mutable_member()->set_host_id(worker.host);
    event.request.mutable_member()->set_pid(1);
    event.request.set_wanted_size(OneIn(50) ? Below(5) : 3);
    event.request.set_launch_index(Below(4));
    event.request.set_protocol_version(kProtocolVersion);
    event.request.set_join_timeout_ms(5000);
    event.request.set_stall_warning_ms(1000);
    if (is_elastic_ != OneIn(100)) FillElastic(&event.request);
    See(shell_.Step(event));
  }

  void Hello(Worker* opening) {
    Worker& worker = *opening;
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(worker.incarnation);
    hello.set_epoch(EpochFor(worker));
    for (const auto& [number, slot] : worker.slots) *hello.add_slots() = slot;
    for (const auto& [number, group] : worker.groups) *hello.add_groups() = group;
    if (worker.epoch != 0 && OneIn(30)) {
      v1::SlotAssigned* slot = hello.add_slots();
      slot->set_name(Name());
      slot->set_slot(Below(300));
      slot->set_group(Below(3));
    }
    if (worker.epoch != 0 && OneIn(30)) {
      v1::Group* group = hello.add_groups();
      group->set_number(1 + Below(3));
      group->add_ranks(Below(4));
    }
    worker.stream = shell_.NewStream();
    See(shell_.Step(StreamOpened{worker.stream, hello}));
  }

  void Close() {
    Worker& worker = SomeWorker();
    if (shell_.IsOpen(worker.stream)) See(shell_.Close(worker.stream, OneIn(2) ? "\xFF reset\n" : ""));
  }

  void Checkpoint() {
    const Worker& worker = SomeWorker();
    const uint64_t token = Below(20);
    if (OneIn(2)) {
      BeginCheckpointRequested event{shell_.NewCall(), {}};
      event.request.set_incarnation(worker.incarnation);
      event.request.set_epoch(EpochFor(worker));
      event.request.set_step(Below(50));
      event.request.set_idempotency_key(absl::StrCat(Below(50)));
      return See(shell_.Step(event));
    }
    CommitCheckpointRequested event{shell_.NewCall(), {}};
    event.request.set_incarnation(worker.incarnation);
    event.request.mutable_checkpoint()->set_step(Below(50));
    event.request.mutable_checkpoint()->set_token(token);
    event.request.mutable_checkpoint()->set_path(absl::StrCat("/ckpt/x.t", token, ".s"));
    event.request.mutable_checkpoint()->set_sha256(std::string(32, 's'));
    See(shell_.Step(event));
  }

  void Say() {
    Worker& worker = SomeWorker();
    // Late messages on closed streams may still stand in the mailbox.
    if (worker.stream == 0) return;
    See(shell_.Step(MessageReceived{worker.stream, SomeMessage(&worker)}));
  }

  v1::WorkerMessage SomeMessage(Worker* worker) {
    v1::WorkerMessage message;
    const uint64_t dice = Below(1000);
    if (dice < 500) {
      FillReady(message.mutable_ready());
    } else if (dice < 600) {
      v1::GroupRequest* request = message.mutable_group_request();
      request->set_epoch(EpochFor(*worker));
      // Mostly the same in the same place on all ranks.
      const uint64_t what = OneIn(30) ? Below(9) : worker->requests++ % 5;
      // Mostly its number, sometimes that of an earlier one.
      request->set_ordinal(OneIn(10) ? Below(4) : worker->requests);
      if (what == 3) {
        request->set_remove_group(1 + Below(2));
      } else {
        request->add_ranks(what % 3);
        if (what % 2 == 1) request->add_ranks(what == 7 ? 9 : 2);
      }
    } else if (dice < 850) {
      message.mutable_heartbeat()->set_epoch(EpochFor(*worker));
      for (uint32_t rank = 0; rank < 3; ++rank) {
        v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
        pulse->set_rank(OneIn(2000) ? 7 : rank);
        pulse->set_beat(++beats_);
      }
    } else if (dice < 851) {
      message.mutable_peer_lost()->set_epoch(EpochFor(*worker));
      message.mutable_peer_lost()->set_rank(Below(4));
    } else if (dice < 920) {
      v1::StallReport* report = message.mutable_stall_report();
      report->set_epoch(EpochFor(*worker));
      report->set_inquiry(Below(4));
      for (uint64_t i = Below(3); i > 0; --i) {
        v1::PendingTensor* pending = report->add_pending();
        pending->set_name(Name());
        pending->set_group(Below(3));
        pending->set_age_ms(OneIn(20) ? ~0ull : Below(5000));
      }
    } else if (dice < 960) {
      message.mutable_slot_retired()->set_epoch(EpochFor(*worker));
      message.mutable_slot_retired()->set_slot(Below(20));
    } else if (dice < 963) {
      message.mutable_leave()->set_epoch(EpochFor(*worker));
      message.mutable_leave()->set_returns(OneIn(2));
    } else if (dice < 966) {
      message.mutable_departing()->set_epoch(EpochFor(*worker));
    } else if (dice < 967) {
      message.mutable_hello();
    } else if (dice < 969) {
      message.mutable_process_ended()->set_launch_index(static_cast<uint32_t>(Below(6)));
      message.mutable_process_ended()->set_sentence(OneIn(5) ? "" : "rank 1 of mpirun ended");
    }
    return message;
  }

  void FillReady(v1::Ready* ready) {
    ready->set_name(OneIn(500) ? "" : Name());
    ready->set_group(OneIn(3) ? Below(4) : 0);
    ready->set_op(static_cast<v1::OpType>(OneIn(10) ? Below(9) : 0));
    ready->add_shape(OneIn(5) ? Below(3) : 1);
    if (OneIn(10)) ready->set_retired_slot(Below(20));
    if (OneIn(10)) ready->set_disputed_slot(1 + Below(3));
    ready->set_attempt(Below(2));
  }

  std::mt19937_64 random_;
  TestShell shell_;
  const bool is_elastic_;
  std::deque<Worker> workers_;
  // The first of the three workers of the last run.
  size_t run_ = 0;
  uint64_t beats_ = 0;
  uint64_t epochs_ = 0;
  uint64_t slots_ = 0;
  uint64_t groups_ = 0;
};

class RandomTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomTest, NoSequenceOfEventsBreaksAPromise) {
  RandomWorld world(GetParam(), GetParam() % 2 == 0);
  world.Play(30000);
  ASSERT_TRUE(world.shell().broken().empty()) << "seed " << GetParam() << ": " << world.shell().broken().front();
  // Otherwise the sequence is too wild to show anything.
  EXPECT_GT(world.epochs(), 10u);
  EXPECT_GT(world.slots(), GetParam() % 2 == 0 ? 5u : 50u);
  RecordProperty("epochs", absl::StrCat(world.epochs()));
  RecordProperty("slots", absl::StrCat(world.slots()));
  RecordProperty("groups", absl::StrCat(world.groups()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTest, testing::Range<uint64_t>(1, 21));

}  // namespace
}  // namespace farandole
