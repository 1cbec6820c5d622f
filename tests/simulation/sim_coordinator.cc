#include "tests/simulation/sim_coordinator.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {
namespace {

constexpr char kTenant[] = "default";

JobOptions Options() {
  JobOptions options;
  options.max_workers = 65'536;
  return options;
}

}  // namespace

SimCoordinator::SimCoordinator(VirtualTime* time, std::string job) : time_(time), name_(std::move(job)) { Restart(); }

int64_t SimCoordinator::Delay() {
  return time_->OneIn(50) ? time_->Between(0, 30 * kMillisecond) : time_->Between(50 * kMicrosecond, kMillisecond);
}

void SimCoordinator::Restart() {
  FD_CHECK(job_ == nullptr) << "the coordinator is up";
  ++life_;
  began_ahead_ += std::exchange(wall_ahead_, absl::ZeroDuration());
  const auto random = [this](size_t bytes) {
    std::string secret = absl::StrCat("secret ", ++secrets_);
    secret.resize(bytes, '.');
    return secret;
  };
  if (rows_.empty()) {
    job_ = std::make_unique<Job>(kTenant, name_, Options(), random);
    return;
  }
  std::vector<StoreRow> rows;
  for (const auto& [key, value] : rows_) rows.push_back({key, value});
  absl::StatusOr<std::unique_ptr<Job>> job = Job::Restore(kTenant, name_, Options(), random, rows, Now());
  FD_CHECK(job.ok()) << job.status().ToString();
  job_ = *std::move(job);
  Take(Ticked{});
}

void SimCoordinator::Crash() {
  job_.reset();
  ++life_;
  next_tick_ = absl::InfiniteFuture();
  const absl::Status gone = absl::UnavailableError("the coordinator has gone away");
  for (auto& [number, stream] : std::exchange(streams_, {})) {
    if (stream.listener.process->is_dead()) continue;
    stream.listener.process->After(stream.out.Next(Delay()),
                                   [closed = stream.listener.on_closed, gone] { closed(gone); });
  }
  for (auto& [number, asked] : std::exchange(calls_, {})) {
    asked.caller->After(Delay(), [answer = asked.answer, gone] { answer(Reply{0, gone, {}}); });
  }
}

void SimCoordinator::Call(const std::shared_ptr<SimProcess>& caller, const std::function<Event(CallId)>& make,
                          std::function<void(const Reply&)> answer) {
  time_->After(Delay(), [this, caller, make, answer = std::move(answer)] {
    if (job_ == nullptr) {
      caller->After(Delay(), [answer] { answer(Reply{0, absl::UnavailableError("nobody listens"), {}}); });
      return;
    }
    const CallId call = ++last_call_;
    calls_[call] = {caller, answer};
    Take(make(call));
  });
}

StreamId SimCoordinator::Open(v1::Hello hello, Listener listener) {
  const StreamId number = ++last_stream_;
  if (job_ == nullptr) {
    listener.process->After(Delay(),
                            [closed = listener.on_closed] { closed(absl::UnavailableError("nobody listens")); });
    return number;
  }
  Stream& stream = streams_[number];
  stream.listener = std::move(listener);
  time_->After(stream.in.Next(Delay()), [this, number, hello = std::move(hello)] {
    if (streams_.count(number) > 0) Take(StreamOpened{number, hello});
  });
  return number;
}

void SimCoordinator::Send(StreamId stream, v1::WorkerMessage message) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  time_->After(found->second.in.Next(Delay()), [this, stream, message = std::move(message)] {
    if (streams_.count(stream) > 0) Take(MessageReceived{stream, message});
  });
}

void SimCoordinator::End(StreamId stream, const std::string& evidence) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  time_->After(found->second.in.Next(Delay()), [this, stream, evidence] {
    if (streams_.erase(stream) > 0) Take(StreamClosed{stream, evidence});
  });
}

void SimCoordinator::Take(const Event& event) {
  Actions actions = job_->Step(event, Now(), wall_ahead_);
  summary_ = job_->Summary();
  if (actions.next_tick < next_tick_) Tick(actions.next_tick);
  const int64_t delay = actions.persist.empty() ? 0 : time_->Between(100 * kMicrosecond, 10 * kMillisecond);
  time_->After(commits_.Next(delay), [this, life = life_, actions = std::move(actions)] {
    if (life != life_) return;
    Persist(actions.persist);
    for (const Output& output : actions.outputs) Act(output);
  });
}

void SimCoordinator::Tick(absl::Time at) {
  next_tick_ = at;
  const int64_t delay = std::max<int64_t>(0, absl::ToInt64Nanoseconds(at - Now()));
  time_->After(delay, [this, life = life_, at] {
    if (life != life_ || next_tick_ != at) return;
    next_tick_ = absl::InfiniteFuture();
    Take(Ticked{});
  });
}

void SimCoordinator::Persist(const StoreBatch& batch) {
  for (const std::string& key : batch.deletes) rows_.erase(key);
  for (const StoreRow& row : batch.puts) rows_[row.key] = row.value;
}

void SimCoordinator::Act(const Output& output) {
  if (const auto* send = std::get_if<farandole::Send>(&output)) {
    const auto found = streams_.find(send->stream);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    stream.listener.process->After(stream.out.Next(Delay()), [this, number = send->stream, message = send->message] {
      if (const auto open = streams_.find(number); open != streams_.end()) open->second.listener.on_message(*message);
    });
  } else if (const auto* close = std::get_if<CloseStream>(&output)) {
    const auto found = streams_.find(close->stream);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    stream.listener.process->After(stream.out.Next(Delay()), [this, number = close->stream, status = close->status] {
      const auto open = streams_.find(number);
      if (open == streams_.end()) return;
      const Listener listener = std::move(open->second.listener);
      streams_.erase(open);
      listener.on_closed(status);
    });
  } else if (const auto* reply = std::get_if<Reply>(&output)) {
    const auto found = calls_.find(reply->call);
    FD_CHECK(found != calls_.end()) << "call " << reply->call << " is answered twice or was not made";
    const Asked asked = std::move(found->second);
    calls_.erase(found);
    asked.caller->After(Delay(), [answer = asked.answer, reply = *reply] { answer(reply); });
  }
}

v1::ListCheckpointsResponse SimCoordinator::Catalogue() {
  v1::ListCheckpointsResponse catalogue;
  for (const auto& [key, value] : rows_) {
    if (key.rfind("checkpoint/", 0) == 0) FD_CHECK(catalogue.add_checkpoints()->ParseFromString(value)) << key;
  }
  return catalogue;
}

}  // namespace farandole
