#include "worker/control/attachment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sockets/tcp_retries.h"
#include "worker/control/coordinator_channel.h"

namespace farandole {
namespace {

// A coordinator that refuses a hello answers within a round trip; one that accepts it need not answer.
constexpr absl::Duration kProofOfLife = absl::Seconds(1);
constexpr absl::Duration kJoinDeadline = absl::Seconds(10);

}  // namespace

Attachment::Attachment(std::shared_ptr<ControlLoop> loop, v1::WorkerService::StubInterface* stub, Options options,
                       Conversation::Callbacks callbacks)
    : loop_(std::move(loop)),
      stub_(stub),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      backoff_(kFirstRetryDelay, kLongestRetryDelay) {}

void Attachment::Begin() {
  tick_timer_ = loop_->RunAfter(options_.tick_interval, [this] { Tick(); });
  OpenStream();
}

void Attachment::Send(v1::WorkerMessage message) {
  absl::MutexLock lock(&mutex_);
  if (!SendLocked(std::move(message))) Overflow();
}

bool Attachment::IsOpen() const {
  const absl::MutexLock lock(&mutex_);
  return sending_ == Sending::kQueued && stream_ != nullptr;
}

void Attachment::Overflow() {
  sending_ = Sending::kDropped;
  loop_->Post([this] {
    End(absl::ResourceExhaustedError(absl::StrCat("coordinator ", options_.where.address,
                                                  " does not take this worker's messages: more than ",
                                                  ControlStream::kMaxQueuedMessages, " of them or ",
                                                  ControlStream::kMaxQueuedBytes, " bytes wait to be written")));
  });
}

bool Attachment::SendLocked(v1::WorkerMessage message) {
  if (sending_ == Sending::kDropped) return true;
  if (sending_ == Sending::kQueued) return stream_->Send(std::move(message));
  if (loop_->OnLoopThread()) {
    if (!std::exchange(resend_begun_, true)) held_back_.clear();
    return stream_->Send(std::move(message));
  }
  if (held_back_.size() >= ControlStream::kMaxQueuedMessages) return false;
  held_back_.push_back(std::move(message));
  return true;
}

void Attachment::Leave(v1::WorkerMessage leave, std::function<void()> done) {
  if (ended_) {
    done();
    return;
  }
  leave_ = std::move(leave);
  leave_done_ = std::move(done);
  absl::MutexLock lock(&mutex_);
  if (sending_ != Sending::kQueued) return;
  stream_->SendLast(*leave_);
  sending_ = Sending::kDropped;
  leave_sent_ = true;
}

void Attachment::Close() { EndQuietly(); }

void Attachment::Shutdown() {
  std::unique_ptr<ControlStream> stream;
  {
    absl::MutexLock lock(&mutex_);
    sending_ = Sending::kDropped;
    stream = std::move(stream_);
  }
  ControlStream::Retire(std::move(stream));
  JoinCall::Retire(std::move(join_call_));
}

void Attachment::OpenStream() {
  const uint64_t number = ++stream_number_;
  proven_ = false;
  leave_sent_ = false;
  v1::Hello hello = callbacks_.make_hello();
  // The loop drops functions posted after its end, so `this` is not used after that.
  ControlStream::Events events;
  events.on_hello_written = [this, loop = loop_, number] { loop->Post([this, number] { HelloWritten(number); }); };
  events.on_message = [this, loop = loop_, number](v1::CoordinatorMessage message) {
    loop->Post([this, number, message = std::move(message)] { MessageReceived(number, message); });
  };
  events.on_done = [this, loop = loop_, number](const grpc::Status& status) {
    loop->Post([this, number, status] { StreamDone(number, status); });
  };
  std::unique_ptr<ControlStream> stream =
      ControlStream::Open(stub_, options_.where, std::move(hello), std::move(events));
  absl::MutexLock lock(&mutex_);
  stream_ = std::move(stream);
  // Nothing is unanswered before the first stream, so later messages simply follow its hello.
  if (number == 1) ReleaseHeldBack();
}

void Attachment::HelloWritten(uint64_t number) {
  if (ended_ || number != stream_number_) return;
  {
    // Signs of life travel there.
    absl::MutexLock lock(&mutex_);
    if (stream_ != nullptr) RetryConnectionsSooner(stream_->peer());
  }
  if (number != 1) Resend();
  if (ended_) return;
  if (leave_ && !leave_sent_) {
    absl::MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->SendLast(*leave_);
    sending_ = Sending::kDropped;
    leave_sent_ = true;
  }
  proof_timer_ = loop_->RunAfter(kProofOfLife, [this] {
    proof_timer_ = 0;
    Proven();
  });
}

void Attachment::Resend() {
  {
    absl::MutexLock lock(&mutex_);
    sending_ = Sending::kHeldBack;
    resend_begun_ = false;
    held_back_.clear();
  }
  callbacks_.on_attached();
  absl::MutexLock lock(&mutex_);
  ReleaseHeldBack();
}

void Attachment::ReleaseHeldBack() {
  // A bound that was reached meanwhile has switched sending off.
  if (sending_ != Sending::kHeldBack) return;
  sending_ = Sending::kQueued;
  std::vector<v1::WorkerMessage> held_back;
  held_back.swap(held_back_);
  for (v1::WorkerMessage& message : held_back) {
    if (stream_->Send(std::move(message))) continue;
    Overflow();
    return;
  }
}

void Attachment::MessageReceived(uint64_t number, const v1::CoordinatorMessage& message) {
  if (ended_ || number != stream_number_) return;
  Proven();
  callbacks_.on_message(message);
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) stream_->ReadNext();
}

void Attachment::StreamDone(uint64_t number, const grpc::Status& status) {
  if (ended_ || number != stream_number_) return;
  std::unique_ptr<ControlStream> broken;
  {
    absl::MutexLock lock(&mutex_);
    sending_ = Sending::kDropped;
    broken = std::move(stream_);
  }
  ControlStream::Retire(std::move(broken));
  CancelTimer(&proof_timer_);
  const bool unknown = status.error_code() == grpc::StatusCode::NOT_FOUND;
  if (!unknown && !IsPassing(status)) {
    End(Explain(options_.where, "ended this worker's stream", status));
    return;
  }
  // A coordinator that has forgotten this worker needs no farewell.
  if (unknown && leave_) {
    EndQuietly();
    return;
  }
  join_first_ = join_first_ || unknown;
  Lost(status);
}

void Attachment::Lost(const grpc::Status& cause) {
  last_cause_ = cause;
  if (gave_up_while_open_) {
    GiveUp();
    return;
  }
  if (give_up_timer_ == 0) {
    give_up_timer_ = loop_->RunAfter(options_.give_up_after, [this] {
      give_up_timer_ = 0;
      GiveUp();
    });
  }
  retry_timer_ = loop_->RunAfter(std::max(backoff_.Next(), DelayOf(cause)), [this] {
    retry_timer_ = 0;
    RetryNow();
  });
}

void Attachment::RetryNow() {
  if (!join_first_) {
    OpenStream();
    return;
  }
  join_call_ =
      JoinCall::Start(stub_, options_.where, options_.join, kJoinDeadline,
                      [this, loop = loop_](const JoinCall* call) { loop->Post([this, call] { JoinAnswered(call); }); });
}

void Attachment::JoinAnswered(const JoinCall* call) {
  if (ended_ || call != join_call_.get()) return;
  const grpc::Status status = call->status();
  JoinCall::Retire(std::move(join_call_));
  if (status.ok()) {
    join_first_ = false;
    OpenStream();
  } else if (MayJoinLater(status)) {
    Lost(status);
  } else {
    End(ExplainJoin(options_.where, options_.join, status));
  }
}

void Attachment::Proven() {
  if (proven_) return;
  proven_ = true;
  CancelTimer(&proof_timer_);
  CancelTimer(&give_up_timer_);
  gave_up_while_open_ = false;
  backoff_.Reset();
}

void Attachment::GiveUp() {
  {
    // A hello that was written may still be taken; the proof timer, or the stream's end, decides.
    absl::MutexLock lock(&mutex_);
    gave_up_while_open_ = stream_ != nullptr && proof_timer_ != 0;
  }
  if (gave_up_while_open_) return;
  if (last_cause_.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
    return End(Explain(options_.where, "has had no room for this worker", last_cause_));
  const bool unknown = last_cause_.error_code() == grpc::StatusCode::NOT_FOUND;
  End(absl::UnavailableError(absl::StrCat("coordinator ", options_.where.address,
                                          unknown ? " has not known this worker for " : " has been unreachable for ",
                                          absl::FormatDuration(options_.give_up_after), ": ",
                                          PlainCause(last_cause_))));
}

void Attachment::End(absl::Status status) {
  if (ended_) return;
  const bool leaving = leave_.has_value();
  EndQuietly();
  if (!leaving) callbacks_.on_ended(std::move(status));
}

void Attachment::EndQuietly() {
  if (std::exchange(ended_, true)) return;
  for (ControlLoop::TimerId* timer : {&tick_timer_, &retry_timer_, &proof_timer_, &give_up_timer_}) CancelTimer(timer);
  {
    absl::MutexLock lock(&mutex_);
    sending_ = Sending::kDropped;
    if (stream_ != nullptr) stream_->Cancel();
  }
  if (leave_done_) std::exchange(leave_done_, nullptr)();
}

void Attachment::Tick() {
  tick_timer_ = loop_->RunAfter(options_.tick_interval, [this] { Tick(); });
  callbacks_.on_tick();
}

void Attachment::CancelTimer(ControlLoop::TimerId* timer) {
  if (*timer != 0) loop_->Cancel(std::exchange(*timer, 0));
}

}  // namespace farandole
