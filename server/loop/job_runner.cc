#include "server/loop/job_runner.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "base/steady_time.h"
#include "server/loop/event_bytes.h"
#include "server/loop/job_rows.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

spdlog::level::level_enum LevelOf(LogLine::Level level) {
  switch (level) {
    case LogLine::Level::kInform:
      return spdlog::level::info;
    case LogLine::Level::kWarn:
      return spdlog::level::warn;
    case LogLine::Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// For a disk that works.
constexpr absl::Duration kLongWait = absl::Seconds(1);

// A logger of the job's name: the formatter of the lines may show the job as a field.
void Log(const std::string& job, const LogLine& line) {
  spdlog::default_logger_raw()->clone(job)->log(LevelOf(line.level), line.sentence);
}

}  // namespace

JobRunner::JobRunner(JobKey key, std::unique_ptr<Job> job, uint64_t owner_revision, Dependencies dependencies,
                     std::function<void(uint64_t, absl::Status)> committed)
    : key_(std::move(key)),
      owner_(key_.Text()),
      job_(std::move(job)),
      owner_revision_(owner_revision),
      dependencies_(std::move(dependencies)),
      committed_(std::move(committed)),
      formed_epoch_(job_->Summary().epoch()),
      ended_epoch_(formed_epoch_ == 0 ? 0 : formed_epoch_ - 1) {}

void JobRunner::Take(const Event& event, absl::Time now) {
  if (!Admit(event)) return;
  job_->DeferLogged(unfinished_bytes_ > 0);
  const absl::Time before = SteadyNow();
  Actions actions = job_->Step(event, now, WallAhead());
  dependencies_.metrics->ObserveStep(SteadyNow() - before);
  // In every outcome, an ended stream is released after all earlier decisions.
  if (const auto* closed = std::get_if<StreamClosed>(&event)) {
    actions.outputs.emplace_back(CloseStream{closed->stream, absl::CancelledError(closed->evidence)});
  }
  CarryOut(std::move(actions), std::holds_alternative<JobInspected>(event));
  Keep();
}

void JobRunner::KeepAll() {
  job_->HastenMeasured();
  Keep();
}

void JobRunner::Keep() {
  if (is_keeping_ || !job_->HasMeasured()) return;
  StoreBatch batch = job_->TakeMeasured();
  if (batch.empty()) return;
  is_keeping_ = true;
  batch.is_patient = true;
  dependencies_.store->Commit(owner_, owner_revision_, std::move(batch), [committed = committed_](absl::Status status) {
    committed(kMeasured, std::move(status));
  });
}

bool JobRunner::Admit(const Event& event) {
  return std::visit(
      [this](const auto& one) {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, StreamOpened>) {
          streams_.insert(one.stream);
          return true;
        } else if constexpr (std::is_same_v<T, MessageReceived>) {
          if (!streams_.contains(one.stream)) return false;
          dependencies_.metrics->CountReceived(key_, one.message);
          return true;
        } else if constexpr (std::is_same_v<T, StreamClosed>) {
          return streams_.contains(one.stream);
        } else if constexpr (std::is_same_v<T, Ticked>) {
          return true;
        } else {
          calls_.insert(one.call);
          return true;
        }
      },
      event);
}

bool JobRunner::WaitsLong() const {
  return !unfinished_.empty() && SteadyNow() - unfinished_.front().since > kLongWait;
}

void JobRunner::CarryOut(Actions actions, bool is_look) {
  next_tick_ = actions.next_tick;
  Account(actions.outputs);
  const bool is_durable = actions.persist.empty();
  // Heartbeats take no place in the queue.
  if (is_durable && actions.outputs.empty()) return;
  const bool waits = !is_durable || !unfinished_.empty();
  Charge(waits, &actions.outputs);
  if (is_durable && (unfinished_.empty() || (is_look && actions.outputs.size() == 1 && WaitsLong()))) {
    for (Output& output : actions.outputs) Deliver(std::move(output));
    return;
  }
  if (!is_durable) KeepSummary(&actions.persist);
  const uint64_t number = ++last_number_;
  const size_t bytes = BytesOf(actions.persist);
  unfinished_.push_back({number, SteadyNow(), is_durable, bytes, {}, std::move(actions.outputs)});
  unfinished_bytes_ += bytes;
  if (dependencies_.bytes != nullptr && bytes > 0)
    unfinished_.back().charge = dependencies_.bytes->Add(ByteKind::kCommits, static_cast<int64_t>(bytes));
  if (is_durable) return;
  actions.persist.is_patient = true;
  dependencies_.store->Commit(
      owner_, owner_revision_, std::move(actions.persist),
      [number, committed = committed_, metrics = dependencies_.metrics, called = SteadyNow()](absl::Status status) {
        metrics->ObserveCommit(SteadyNow() - called);
        committed(number, std::move(status));
      });
}

void JobRunner::KeepSummary(StoreBatch* persist) {
  if (job_->IsDeleted()) {
    persist->deletes.push_back(SummaryRowKey(key_));
    return;
  }
  std::string summary = LastingPart(job_->Summary()).SerializeAsString();
  if (summary == kept_summary_) return;
  persist->puts.push_back({SummaryRowKey(key_), summary});
  kept_summary_ = std::move(summary);
}

void JobRunner::Account(const std::vector<Output>& outputs) {
  std::string stall;
  for (const Output& output : outputs) {
    if (const auto* send = std::get_if<Send>(&output)) CountEpochs(*send->message, &stall);
    if (const auto* close = std::get_if<CloseStream>(&output)) streams_.erase(close->stream);
    if (const auto* reply = std::get_if<Reply>(&output)) calls_.erase(reply->call);
  }
}

void JobRunner::Charge(bool wait, std::vector<Output>* outputs) const {
  if (dependencies_.bytes == nullptr) return;
  const auto charge = [this](int64_t bytes) {
    return std::make_shared<const ByteCharge>(dependencies_.bytes->Add(ByteKind::kOutgoing, bytes));
  };
  const Send* last = nullptr;
  for (Output& output : *outputs) {
    if (auto* send = std::get_if<Send>(&output)) {
      send->charge = last != nullptr && last->message == send->message ? last->charge : charge(BytesOf(*send->message));
      last = send;
    } else if (auto* reply = std::get_if<Reply>(&output); reply != nullptr && wait) {
      reply->charge = charge(BytesOf(*reply));
    }
  }
}

void JobRunner::CountEpochs(const v1::CoordinatorMessage& message, std::string* stall) {
  if (message.has_epoch_formed() && message.epoch_formed().number() > formed_epoch_) {
    formed_epoch_ = message.epoch_formed().number();
    dependencies_.metrics->CountEpochFormed();
  }
  if (message.has_epoch_ended() && message.epoch_ended().epoch() > ended_epoch_) {
    ended_epoch_ = message.epoch_ended().epoch();
    dependencies_.metrics->CountEpochEnded();
    if (!message.epoch_ended().job_ended()) dependencies_.metrics->CountReset();
  }
  if (message.has_stall_notice() && message.stall_notice().sentence() != *stall) {
    *stall = message.stall_notice().sentence();
    dependencies_.metrics->CountStallNotice();
  }
}

void JobRunner::OnCommitted(uint64_t number) {
  if (number == kMeasured) {
    is_keeping_ = false;
    return Keep();
  }
  for (UnfinishedStep& step : unfinished_) {
    if (step.number != number) continue;
    step.is_durable = true;
    step.charge.Release();
    unfinished_bytes_ -= std::exchange(step.bytes, 0);
  }
  DeliverDurable();
}

void JobRunner::DeliverDurable() {
  while (!unfinished_.empty() && unfinished_.front().is_durable) {
    std::vector<Output> outputs = std::move(unfinished_.front().outputs);
    unfinished_.pop_front();
    for (Output& output : outputs) Deliver(std::move(output));
  }
}

void JobRunner::Deliver(Output output) {
  if (const auto* line = std::get_if<LogLine>(&output)) {
    if (dependencies_.lines == nullptr || dependencies_.lines->Admit(key_.tenant, SteadyNow())) Log(owner_, *line);
    return;
  }
  if (const auto* send = std::get_if<Send>(&output)) dependencies_.metrics->CountSent(key_, *send->message);
  dependencies_.output_receiver->Deliver(std::move(output));
}

void JobRunner::Abandon(const absl::Status& status) {
  for (const UnfinishedStep& step : unfinished_) {
    for (const Output& output : step.outputs) {
      if (const auto* close = std::get_if<CloseStream>(&output)) streams_.insert(close->stream);
      if (const auto* reply = std::get_if<Reply>(&output)) calls_.insert(reply->call);
    }
  }
  unfinished_.clear();
  unfinished_bytes_ = 0;
  for (const StreamId stream : streams_) dependencies_.output_receiver->Deliver(CloseStream{stream, status});
  for (const CallId call : calls_) dependencies_.output_receiver->Deliver(Reply{call, status, {}});
  streams_.clear();
  calls_.clear();
}

}  // namespace farandole
