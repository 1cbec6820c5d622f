#include "tests/simulation/sim_conversation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {
namespace {

constexpr int64_t kRetryNs = 200 * kMillisecond;

absl::Status MustNotBlock() { return absl::InternalError("a simulated program asks the coordinator itself"); }

}  // namespace

SimConversation::SimConversation(SimCoordinator* coordinator, const ProcessTable* processes,
                                 std::shared_ptr<SimProcess> process, v1::JoinRequest join, Callbacks callbacks,
                                 std::function<void()> after_event)
    : coordinator_(coordinator),
      processes_(processes),
      process_(std::move(process)),
      join_(std::move(join)),
      callbacks_(std::move(callbacks)),
      after_event_(std::move(after_event)),
      is_alive_(std::make_shared<bool>(true)) {
  Later(0, [this] { Join(); });
  Later(absl::ToInt64Nanoseconds(kTick), [this] { Tick(); });
}

SimConversation::~SimConversation() {
  *is_alive_ = false;
  if (stream_ != 0) coordinator_->End(stream_, "it ended its stream");
}

void SimConversation::Later(int64_t delay_ns, std::function<void()> event) {
  process_->After(delay_ns, [alive = is_alive_, event = std::move(event)] {
    if (*alive) event();
  });
}

void SimConversation::Join() {
  const auto make = [join = join_](CallId call) { return Event(JoinRequested{call, join}); };
  coordinator_->Call(process_, make, [this, alive = is_alive_](const Reply& reply) {
    if (!*alive || ended_) return;
    if (reply.status.ok()) return OpenStream();
    if (!absl::IsUnavailable(reply.status)) return End(reply.status);
    RetryAfter(reply.status, [this] { Join(); });
  });
}

void SimConversation::OpenStream() {
  if (VirtualTime::NowNs() < partitioned_until_ns_) {
    return RetryAfter(absl::UnavailableError("the network is cut"), [this] { OpenStream(); });
  }
  const uint64_t attempt = ++attempts_;
  SimCoordinator::Listener listener;
  listener.process = process_;
  listener.on_message = [this, alive = is_alive_, attempt](const v1::CoordinatorMessage& message) {
    if (!*alive || ended_ || attempt != attempts_) return;
    away_since_ns_ = -1;
    callbacks_.on_message(message);
    after_event_();
  };
  listener.on_closed = [this, alive = is_alive_, attempt](const absl::Status& status) {
    if (*alive && !ended_) OnClosed(attempt, status);
  };
  stream_ = coordinator_->Open(callbacks_.make_hello(), std::move(listener));
  if (attempt > 1) {
    callbacks_.on_attached();
    after_event_();
  }
  if (leave_) leave_();
}

void SimConversation::OnClosed(uint64_t attempt, const absl::Status& status) {
  if (attempt != attempts_) return;
  stream_ = 0;
  if (absl::IsUnavailable(status)) return RetryAfter(status, [this] { OpenStream(); });
  if (absl::IsNotFound(status)) return RetryAfter(status, [this] { Join(); });
  End(status);
}

void SimConversation::RetryAfter(const absl::Status& cause, std::function<void()> again) {
  const int64_t now_ns = VirtualTime::NowNs();
  if (away_since_ns_ < 0) away_since_ns_ = now_ns;
  if (now_ns - away_since_ns_ > kOutageLimitNs) {
    return End(absl::UnavailableError(absl::StrCat("the coordinator was away for too long: ", cause.message())));
  }
  Later(kRetryNs, [this, again = std::move(again)] {
    if (!ended_) again();
  });
}

void SimConversation::End(const absl::Status& status) {
  ended_ = true;
  if (!leave_) callbacks_.on_ended(status);
  after_event_();
}

void SimConversation::Tick() {
  if (ended_) return;
  callbacks_.on_tick();
  after_event_();
  Later(absl::ToInt64Nanoseconds(kTick), [this] { Tick(); });
}

void SimConversation::Send(v1::WorkerMessage message) {
  if (stream_ != 0 && VirtualTime::NowNs() >= partitioned_until_ns_) coordinator_->Send(stream_, std::move(message));
}

void SimConversation::Post(std::function<void()> function) { Later(0, std::move(function)); }

absl::Status SimConversation::WatchProcess(int64_t pid, std::function<void()> on_exit) {
  const std::shared_ptr<SimProcess>& process = processes_->at(pid);
  // A process of another host has no id here.
  if (process->host() != process_->host()) return absl::OkStatus();
  const auto tell = [this, alive = is_alive_, on_exit = std::move(on_exit)] {
    if (!*alive) return;
    Later(100 * kMicrosecond, [this, on_exit] {
      on_exit();
      after_event_();
    });
  };
  process->is_dead() ? tell() : process->WatchExit(tell);
  return absl::OkStatus();
}

absl::StatusOr<v1::BeginCheckpointResponse> SimConversation::BeginCheckpoint(v1::BeginCheckpointRequest request) {
  (void)request;
  return MustNotBlock();
}

absl::StatusOr<v1::CommitCheckpointResponse> SimConversation::CommitCheckpoint(v1::CommitCheckpointRequest request) {
  (void)request;
  return MustNotBlock();
}

absl::StatusOr<v1::FindCheckpointResponse> SimConversation::FindCheckpoint(v1::FindCheckpointRequest request) {
  (void)request;
  return MustNotBlock();
}

void SimConversation::Leave(v1::Leave leave, absl::Duration timeout) {
  Later(absl::ToInt64Nanoseconds(timeout), [this] {
    if (!ended_) End(absl::OkStatus());
  });
  leave_ = [this, leave = std::move(leave)] {
    v1::WorkerMessage message;
    *message.mutable_leave() = leave;
    Send(std::move(message));
  };
  if (stream_ != 0) leave_();
}

void SimConversation::Partition(int64_t for_ns) {
  if (ended_) return;
  partitioned_until_ns_ = VirtualTime::NowNs() + for_ns;
  if (stream_ == 0) return;
  coordinator_->End(std::exchange(stream_, 0), "its stream broke");
  ++attempts_;  // messages on the broken stream are lost
  RetryAfter(absl::UnavailableError("the network is cut"), [this] { OpenStream(); });
}

}  // namespace farandole
