// Plays elastic jobs whose processes do as they should and meet with arbitrary misfortune, from seeds: they are killed,
// stopped and woken, cut off, drained and preempted, started anew, and the coordinator is restarted. Beside the
// promises that TestShell checks: no incarnation is in two epochs, an epoch has from min_size to max_size members, rank
// 0 is a survivor if there is one, and when the misfortunes end no worker waits for ever.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farandole/v1/store.pb.h"
#include "gtest/gtest.h"
#include "server/job/rules/bounds.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

constexpr uint32_t kMinSize = 2;
constexpr uint32_t kWantedSize = 4;
constexpr uint32_t kMaxSize = 6;

class ElasticWorld {
 public:
  explicit ElasticWorld(uint64_t seed) : random_(seed), shell_(JobOptions()), has_launcher_(OneIn(2)) {}

  void Play(int events) {
    for (uint32_t i = 0; i < kWantedSize; ++i) Start();
    for (int i = 0; i < events && broken().empty(); ++i) PlayOne();
    End();
  }
  std::vector<std::string> broken() const {
    std::vector<std::string> all = shell_.broken();
    all.insert(all.end(), broken_.begin(), broken_.end());
    return all;
  }
  uint64_t epochs() const { return last_epoch_; }
  uint64_t survivals() const { return survivals_; }

 private:
  struct Process {
    uint32_t launch_index = 0;
    std::string host;
    std::string incarnation;
    // The incarnation that it had in the last epoch it was in.
    std::string member;
    StreamId stream = 0;
    uint64_t epoch = 0;
    uint32_t rank = 0;
    // It has nothing to do with the job as it stands, and joins when it can.
    bool is_out = true;
    bool is_dead = false;
    bool is_stopped = false;
    // It was told of a wanted change in this epoch.
    bool is_asked = false;
    // Outputs that it has not read, because it is stopped.
    std::deque<Output> unheard;
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  void Expect(bool claim, const std::string& otherwise) {
    if (!claim) broken_.push_back(otherwise);
  }

  std::vector<size_t> Living() const {
    std::vector<size_t> living;
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (!processes_[i].is_dead) living.push_back(i);
    }
    return living;
  }
  // One that is neither dead nor stopped; null: there is none.
  Process* SomeProcess() {
    std::vector<size_t> candidates;
    for (const size_t i : Living()) {
      if (!processes_[i].is_stopped) candidates.push_back(i);
    }
    return candidates.empty() ? nullptr : &processes_[candidates[Below(candidates.size())]];
  }

  void Start() {
    Process process;
    process.launch_index = processes_.size();
    process.host = std::string(1, static_cast<char>('a' + Below(3)));
    processes_.push_back(process);
  }

  void Join(Process* process) {
    process->incarnation = absl::StrCat(absl::Hex(++incarnations_, absl::kZeroPad16), absl::Hex(0, absl::kZeroPad16));
    process->is_out = false;
    process->epoch = 0;
    JoinRequested event{shell_.NewCall(), {}};
    v1::JoinRequest& request = event.request;
    request.set_job("mnist");
    request.mutable_member()->set_incarnation(process->incarnation);
    request.mutable_member()->set_host_id(process->host);
    request.mutable_member()->set_hostname(process->host);
    request.mutable_member()->set_pid(1000 + process->launch_index);
    request.set_wanted_size(kWantedSize);
    request.set_launch_index(process->launch_index);
    request.set_protocol_version(kProtocolVersion);
    request.set_join_timeout_ms(20'000);
    request.set_stall_warning_ms(60'000);
    request.mutable_elastic()->set_min_size(kMinSize);
    request.mutable_elastic()->set_max_size(kMaxSize);
    request.mutable_elastic()->set_join_window_ms(200);
    request.mutable_elastic()->set_shortage_limit_ms(60'000);
    request.mutable_elastic()->set_least_cooldown_ms(100);
    request.mutable_elastic()->set_most_cooldown_ms(800);
    request.set_predecessor(process->member);
    if (!process->member.empty()) predecessor_[process->incarnation] = process->member;
    joining_ = process;
    See(shell_.Step(event));
    joining_ = nullptr;
    if (!process->is_out && !process->is_dead && !OneIn(40)) Open(process);
  }

  void Open(Process* process) {
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(process->incarnation);
    hello.set_epoch(process->epoch);
    process->stream = shell_.NewStream();
    See(shell_.Step(StreamOpened{process->stream, hello}));
  }

  Process* OwnerOf(StreamId stream) {
    const auto found =
        std::find_if(processes_.begin(), processes_.end(), [stream](const Process& p) { return p.stream == stream; });
    return found == processes_.end() ? nullptr : &*found;
  }

  void See(const Actions& actions) {
    for (const Output& output : actions.outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply != nullptr && joining_ != nullptr) Hear(joining_, output);
      const auto* send = std::get_if<Send>(&output);
      const auto* close = std::get_if<CloseStream>(&output);
      if (send != nullptr && send->message->has_epoch_formed()) Check(send->message->epoch_formed());
      const StreamId stream = send != nullptr ? send->stream : close != nullptr ? close->stream : 0;
      Process* const process = stream == 0 ? nullptr : OwnerOf(stream);
      if (process == nullptr || process->is_dead) continue;
      if (process->is_stopped) {
        process->unheard.push_back(output);
      } else {
        Hear(process, output);
      }
    }
    before_ = Record();
  }

  void Hear(Process* process, const Output& output) {
    if (const auto* reply = std::get_if<Reply>(&output); reply != nullptr) {
      const absl::StatusCode code = reply->status.code();
      if (reply->status.ok()) return;
      process->is_out = true;
      // Its program ends with that.
      if (code == absl::StatusCode::kCancelled || code == absl::StatusCode::kAborted) process->is_dead = true;
      const bool may_fail = code == absl::StatusCode::kCancelled || code == absl::StatusCode::kAborted ||
                            code == absl::StatusCode::kUnavailable;
      Expect(may_fail, absl::StrCat("a process may not join: ", reply->status.ToString()));
    } else if (const auto* close = std::get_if<CloseStream>(&output); close != nullptr) {
      if (process->stream != close->stream) return;
      process->stream = 0;
      process->is_out = true;
    } else if (const auto* send = std::get_if<Send>(&output); send != nullptr) {
      if (process->stream == send->stream) Hear(process, *send->message);
    }
  }

  void Hear(Process* process, const v1::CoordinatorMessage& message) {
    if (message.has_epoch_formed()) {
      process->epoch = message.epoch_formed().number();
      process->member = process->incarnation;
      process->is_asked = false;
      for (int rank = 0; rank < message.epoch_formed().members_size(); ++rank) {
        if (message.epoch_formed().members(rank).incarnation() == process->incarnation) process->rank = rank;
      }
    } else if (message.has_epoch_ended()) {
      process->is_out = true;
      if (message.epoch_ended().job_finished()) process->is_dead = true;
    } else if (message.has_change_wanted()) {
      process->is_asked = true;
    }
  }

  v1::JobRecord Record() const {
    v1::JobRecord record;
    const auto row = shell_.rows().find("job/acme/mnist");
    if (row != shell_.rows().end()) record.ParseFromString(row->second);
    return record;
  }

  void Check(const v1::Epoch& epoch) {
    if (epoch.number() <= last_epoch_) return;
    const uint32_t size = epoch.members_size();
    Expect(size >= kMinSize && size <= kMaxSize, absl::StrCat("epoch ", epoch.number(), " has ", size, " members"));
    std::optional<uint32_t> first;
    for (const v1::Member& member : epoch.members()) {
      Expect(seen_.insert(member.incarnation()).second,
             absl::StrCat("incarnation ", member.incarnation(), " is in two epochs"));
      const std::optional<uint32_t> rank = OldRank(member.incarnation());
      if (!rank.has_value()) continue;
      ++survivals_;
      first = first.has_value() ? std::min(*first, *rank) : *rank;
    }
    Expect(OldRank(epoch.members(0).incarnation()) == first,
           absl::StrCat("rank 0 of epoch ", epoch.number(), " is not the first survivor"));
    last_epoch_ = epoch.number();
    last_members_.clear();
    for (const v1::Member& member : epoch.members()) last_members_.push_back(member.incarnation());
  }

  // The rank in the last epoch of the process that joined as `incarnation`, if it may go on from that, by the state
  // that was durable before this step.
  std::optional<uint32_t> OldRank(const std::string& incarnation) const {
    const auto predecessor = predecessor_.find(incarnation);
    if (predecessor == predecessor_.end() || before_.epoch().number() != last_epoch_) return std::nullopt;
    // No worker of a run that is over goes on.
    if (before_.state() != v1::JOB_STATE_RUNNING && !before_.epoch_ended()) return std::nullopt;
    const auto found = std::find(last_members_.begin(), last_members_.end(), predecessor->second);
    if (found == last_members_.end()) return std::nullopt;
    const uint32_t rank = found - last_members_.begin();
    for (const auto* gone : {&before_.lost(), &before_.drained(), &before_.left()}) {
      if (std::find(gone->begin(), gone->end(), rank) != gone->end()) return std::nullopt;
    }
    return rank;
  }

  void Say(Process* process, v1::WorkerMessage message) {
    if (process->stream != 0) See(shell_.Step(MessageReceived{process->stream, std::move(message)}));
  }

  void PlayOne() {
    // A launcher starts others for those that have died, after a while.
    if (Living().size() < kWantedSize && OneIn(20)) return Start();
    const uint64_t dice = Below(1000);
    if (dice < 400) return Pass(absl::Milliseconds(Below(OneIn(100) ? 5000 : 300)));
    if (dice < 403 && Living().size() < kMaxSize + 2) return Start();
    if (dice < 408) return Restart();
    if (dice < 411) return See(shell_.Step(DrainRequested{shell_.NewCall(), Below(kMaxSize), "", {}, "x"}));
    if (dice < 412) {
      return See(shell_.Step(
          DrainRequested{shell_.NewCall(), std::nullopt, std::string(1, static_cast<char>('a' + Below(3))), {}, "x"}));
    }
    if (dice < 414) return ReportSomeExit();
    Process* const process = SomeProcess();
    if (process == nullptr) return Start();
    if (dice < 420) return Kill(process);
    if (dice < 424) return Stop(process);
    if (dice < 430) return Wake();
    if (dice < 440 && process->stream != 0) return Cut(process);
    if (dice < 441) return Depart(process);
    if (dice < 443) return Accuse(process);
    if (dice == 443 && OneIn(20)) return Leave(process, false);
    Act(process);
  }

  // A process's own next action.
  void Act(Process* process) {
    if (process->is_out) return Join(process);
    if (process->stream == 0) return Open(process);
    if (process->epoch != 0 && process->is_asked) return Leave(process, true);
  }

  void Kill(Process* process) {
    process->is_dead = true;
    if (shell_.IsOpen(process->stream)) See(shell_.Close(process->stream, "reset"));
    if (has_launcher_ && !OneIn(5)) return ReportExit(*process);
    if (Process* const peer = SomeProcess(); peer != nullptr && process->epoch == peer->epoch)
      Tell(peer, process->rank);
  }

  void Tell(Process* peer, uint32_t rank) {
    v1::WorkerMessage message;
    message.mutable_peer_lost()->set_epoch(peer->epoch);
    message.mutable_peer_lost()->set_rank(rank);
    if (OneIn(3)) message.mutable_peer_lost()->set_ended_by("something has happened");
    Say(peer, message);
  }

  // Not always right.
  void Accuse(Process* process) {
    if (process->epoch != 0 && process->stream != 0 && !process->is_out) Tell(process, Below(kMinSize));
  }

  void ReportExit(const Process& process) {
    ExitReported event{shell_.NewCall(), {}};
    event.request.set_job("mnist");
    event.request.set_launch_index(process.launch_index);
    event.request.set_failed(!OneIn(4));
    event.request.set_end("SIGKILL");
    event.request.set_host(process.host);
    See(shell_.Step(event));
  }

  // Late, or once more.
  void ReportSomeExit() {
    if (processes_.empty()) return;
    const Process& process = processes_[Below(processes_.size())];
    if (process.is_dead) ReportExit(process);
  }

  void Stop(Process* process) { process->is_stopped = true; }

  void Wake() {
    for (Process& process : processes_) {
      if (!process.is_stopped || process.is_dead) continue;
      process.is_stopped = false;
      std::deque<Output> unheard = std::exchange(process.unheard, {});
      for (const Output& output : unheard) {
        if (!process.is_dead) Hear(&process, output);
      }
    }
  }

  void Cut(Process* process) {
    const StreamId stream = std::exchange(process->stream, 0);
    if (shell_.IsOpen(stream)) See(shell_.Close(stream, "reset"));
  }

  void Depart(Process* process) {
    v1::WorkerMessage message;
    message.mutable_departing()->set_epoch(process->epoch);
    Say(process, message);
  }

  void Leave(Process* process, bool returns) {
    if (process->stream == 0) return;
    v1::WorkerMessage message;
    message.mutable_leave()->set_epoch(process->epoch);
    message.mutable_leave()->set_returns(returns);
    Say(process, message);
    process->is_out = true;
    process->is_dead = !returns;
  }

  void Restart() {
    for (Process& process : processes_) process.stream = 0;
    shell_.Restart([this](const Actions& actions) { See(actions); });
  }

  // Time passes, and all running workers send heartbeats.
  void Pass(absl::Duration duration) {
    shell_.Advance(duration, [this](const Actions& actions) { See(actions); });
    ++beat_;
    for (size_t i = 0; i < processes_.size(); ++i) {
      Process& process = processes_[i];
      if (process.is_dead || process.is_stopped || process.stream == 0 || process.epoch == 0) continue;
      v1::WorkerMessage message;
      message.mutable_heartbeat()->set_epoch(process.epoch);
      v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
      pulse->set_rank(process.rank);
      pulse->set_beat(beat_);
      Say(&process, message);
    }
  }

  // No more misfortunes: all living workers do as they should, until all is settled.
  void End() {
    const auto round = [this] {
      Wake();
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (!processes_[i].is_dead) Act(&processes_[i]);
      }
      Pass(absl::Milliseconds(400));
    };
    // Beyond every limit: silence, opening, shortage, and the first worker's time to wait for others.
    for (int i = 0; i < 500 && broken().empty(); ++i) round();
    if (!broken().empty()) return;
    const v1::JobSummary summary = shell_.job().Summary();
    if (summary.state() != v1::JOB_STATE_RUNNING) {
      // The living workers begin a failed job anew, until there are too few of them.
      Expect(summary.state() == v1::JOB_STATE_FINISHED || Living().size() < kWantedSize,
             absl::StrCat(Living().size(), " processes live, and the job is not running: ", summary.reason()));
      return;
    }
    for (const size_t i : Living()) {
      const Process& process = processes_[i];
      const bool is_spare = process.epoch == 0 && summary.size() == kMaxSize;
      Expect(process.epoch == summary.epoch() || is_spare,
             absl::StrCat("process ", process.launch_index, " is in epoch ", process.epoch, " of ", summary.epoch(),
                          " with ", summary.size(), " members"));
    }
  }

  std::mt19937_64 random_;
  TestShell shell_;
  const bool has_launcher_;
  std::deque<Process> processes_;
  Process* joining_ = nullptr;
  std::set<std::string> seen_;
  std::map<std::string, std::string> predecessor_;
  std::vector<std::string> last_members_;
  v1::JobRecord before_;
  std::vector<std::string> broken_;
  uint64_t incarnations_ = 0;
  uint64_t last_epoch_ = 0;
  uint64_t survivals_ = 0;
  uint64_t beat_ = 0;
};

class ElasticRandomTest : public testing::TestWithParam<uint64_t> {};

TEST_P(ElasticRandomTest, NoMisfortuneBreaksAPromiseAndNobodyWaitsForEver) {
  ElasticWorld world(GetParam());
  world.Play(4000);
  ASSERT_TRUE(world.broken().empty()) << "seed " << GetParam() << ": " << world.broken().front();
  // Otherwise the misfortunes are too many to show anything.
  EXPECT_GT(world.epochs(), 2u);
  EXPECT_GT(world.survivals(), 2u);
  RecordProperty("epochs", absl::StrCat(world.epochs()));
  RecordProperty("survivals", absl::StrCat(world.survivals()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ElasticRandomTest, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace farandole
