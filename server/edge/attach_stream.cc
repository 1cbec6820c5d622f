#include "server/edge/attach_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "grpc/support/time.h"
#include "server/edge/answers/status.h"
#include "server/edge/caller/caller.h"
#include "server/edge/denials/denial_interceptor.h"
#include "server/edge/worker_proof.h"
#include "server/loop/event_bytes.h"

namespace farandole {
namespace {

// A worker sends its hello with the stream; who opens one and says nothing is not kept.
constexpr absl::Duration kHelloDeadline = absl::Seconds(10);
// How long the peer may take to read the rest once the stream is ended.
constexpr absl::Duration kCloseDeadline = absl::Seconds(10);

// A worker that comes back before its old stream's end was seen has two for a while.
constexpr size_t kStreamsPerWorker = 2;
// A stream that waits for room looks by itself once in so long; and one whose tenant sends too fast waits no longer, so
// that its workers' signs of life come in time.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
// After a message that is larger in memory it waits until its own part is paid for, however long that takes, and tells
// its job meanwhile that its worker lives: many streams with such messages would outrun their tenant's pace. The signs
// of life of a host of many ranks are smaller.
constexpr int64_t kLongPauseBytes = 16 << 10;
// A worker for which more waits does not keep up; where its job or its tenant has no room, its stream is ended.
constexpr int64_t kBacklogBytes = 16 << 10;
// All workers of a job come back at once when their coordinator has started anew, each with all names, which their job
// knows from the first: a large hello costs this part of another message.
constexpr int64_t kHelloDiscount = 4;
// Timers are no finer.
constexpr absl::Duration kShortestPause = absl::Milliseconds(1);

gpr_timespec SpanOf(absl::Duration delay) { return gpr_time_from_nanos(absl::ToInt64Nanoseconds(delay), GPR_TIMESPAN); }

int64_t BytesOf(const SharedCharge& charge) { return charge == nullptr ? 0 : charge->bytes(); }

}  // namespace

AttachStream* AttachStream::Start(CallRouter* router, grpc::CallbackServerContext* context,
                                  absl::StatusOr<Access> access) {
  std::shared_ptr<AttachStream> stream(new AttachStream(router, context, access.ok() ? *access : Access()));
  stream->self_ = stream;
  if (!access.ok()) {
    stream->Close(access.status());
    return stream.get();
  }
  stream->reported_ = router->Report(stream->peer_, stream->access_);
  stream->CancelAfter(kHelloDeadline, &stream->hello_alarm_, /*only_unopened=*/true);
  const absl::Status status = router->AwaitPlace(
      stream->access_, {stream, [weak = std::weak_ptr<AttachStream>(stream)](ReadingPlaces::Place place) {
                          if (const auto one = weak.lock()) one->ReadHello(std::move(place));
                        }});
  if (!status.ok()) stream->Close(status);
  return stream.get();
}

void AttachStream::ReadHello(ReadingPlaces::Place place) {
  if (!awaits_place_.exchange(false)) return;
  hello_place_ = std::move(place);
  ResumeBy([this] { StartRead(&bytes_); });
}

void AttachStream::OnCancel() {
  // Of a stream that reads, the read tells it.
  if (awaits_place_.exchange(false)) ResumeBy([this] { StartRead(&bytes_); });
}

AttachStream::AttachStream(CallRouter* router, grpc::CallbackServerContext* context, Access access)
    : router_(router), access_(std::move(access)), peer_(context->peer()), context_(context) {
  ByteLedger* const bytes = router->bytes();
  if (bytes == nullptr || access_.tenant.empty() || !HasPace(access_)) return;
  account_ = bytes->Tenant(access_.tenant);
  pace_ = bytes->PaceOf(access_.tenant);
}

class AttachStream::Large : public LargeMessage {
 public:
  explicit Large(std::shared_ptr<AttachStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<int64_t> Weigh() override { return stream_->Weigh(); }
  int64_t Read() override {
    int64_t price = 0;
    stream_->ResumeBy([&] { price = stream_->ReadMessage(); });
    return price;
  }
  void Refuse(const absl::Status& status) override {
    // gRPC tells of a stream that has broken when it is read.
    if (absl::IsCancelled(status)) return stream_->ResumeBy([] {});
    stream_->Fail(status);
  }
  absl::Status WaitOn() override { return stream_->WaitOn(); }

 private:
  const std::shared_ptr<AttachStream> stream_;
};

absl::Status AttachStream::WaitOn() {
  StreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (context_ == nullptr || end_.has_value() || context_->IsCancelled())
      return absl::CancelledError("its stream has ended");
    id = id_;
  }
  if (absl::Status status = router_->tenants().CheckStanding(access_); !status.ok()) return status;
  if (id == 0) return absl::OkStatus();
  // Not charged: a tenant without room for events is not to lose its workers by that.
  router_->loops().Push(key_, MessageReceived{id, SignOfLife()}, ByteCharge()).IgnoreError();
  return absl::OkStatus();
}

void AttachStream::OnReadDone(bool ok) {
  hello_place_.Leave();
  if (!ok) return OnReadsEnded();
  // The hello has come, however long it waits.
  if (key_.job.empty()) hello_alarm_.Cancel();
  const auto wire_bytes = static_cast<int64_t>(bytes_.Valid() ? bytes_.Length() : 0);
  reported_.OnMessage(wire_bytes);
  if (wire_bytes > kLargeCallBytes) return AwaitReader(wire_bytes);
  const absl::StatusOr<int64_t> weight = Weigh();
  if (!weight.ok()) return Refuse(weight.status(), wire_bytes);
  if (*weight > kLargeStreamedBytes) return AwaitReader(wire_bytes);
  ReadMessage();
}

absl::StatusOr<int64_t> AttachStream::Weigh() {
  // It may have been weighed already.
  if (!bytes_.Valid()) return received_.memory_bytes();
  absl::StatusOr<ReceivedMessage> received = ReceivedMessage::Weigh(bytes_, *v1::WorkerMessage::descriptor());
  bytes_.Clear();
  if (!received.ok()) return received.status();
  received_ = *std::move(received);
  const int64_t bytes = received_.memory_bytes();
  // Until the hello is read, the account is the tenant's.
  const int64_t divisor = key_.job.empty() ? kStreamDivisor : 1;
  const absl::Status fits = account_ == nullptr
                                ? absl::OkStatus()
                                : account_->CheckFits(ByteKind::kEvents, BytesOfEvent(bytes), ByteClass::kJob, divisor);
  if (!fits.ok()) return fits;
  return bytes;
}

void AttachStream::AwaitReader(int64_t wire_bytes) {
  if (!Hold(wire_bytes)) return;
  // A stream has one message that waits, so this does not fail.
  const absl::Status added = router_->large_reader().Add(router_->SenderOf(access_, LargeReader::Kind::kStreamed),
                                                         wire_bytes, std::make_unique<Large>(shared_from_this()));
  if (!added.ok()) Fail(added);
}

int64_t AttachStream::ReadMessage() {
  const int64_t bytes = incoming_bytes_ = received_.memory_bytes();
  paused_.Release();
  const absl::Status read = std::exchange(received_, {}).ReadInto(&incoming_);
  const int64_t price = incoming_.has_hello() ? bytes / kHelloDiscount : bytes;
  if (read.ok()) {
    TakeIn();
  } else {
    Refuse(read, bytes);
  }
  return price;
}

void AttachStream::Refuse(const absl::Status& status, int64_t bytes) {
  if (pace_ != nullptr) pace_->Take(kPaceMessageBytes + bytes, SteadyNow());
  router_->metrics().CountDeniedCall();
  Fail(status);
}

void AttachStream::TakeIn() {
  ByteCharge charge;
  absl::Status status = MakeRoom(&charge);
  // A stream without its hello is no proof that its worker lives, which would wait for an answer.
  if (RetryDelayOf(status).has_value() && !incoming_.has_hello()) return Pause();
  // A large message was paid for when it was read.
  const int64_t bytes = incoming_bytes_ > kLargeStreamedBytes ? 0 : charge.bytes();
  if (status.ok()) status = Receive(std::move(charge));
  if (!status.ok()) return Fail(status);
  ReadOn(bytes);
}

void AttachStream::ReadOn(int64_t bytes) {
  if (pace_ == nullptr) return StartRead(&bytes_);
  const absl::Time now = SteadyNow();
  const int64_t cost = kPaceMessageBytes + bytes;
  const absl::Duration wait = pace_->Take(cost, now);
  if (wait < kShortestPause) return StartRead(&bytes_);
  waiter_.emplace(pace_);
  const absl::Duration part = bytes > kLongPauseBytes ? pace_->TimeOfPart(cost) : absl::ZeroDuration();
  const absl::Duration pause = std::min(wait, std::max(part, kLongestPause));
  reads_at_ = now + pause;
  ResumeAfter(std::min(pause, kLongestPause));
}

void AttachStream::AwaitPace() {
  const absl::Time now = SteadyNow();
  const absl::Duration left = std::min(reads_at_ - now, pace_->Wait(now));
  if (left < kShortestPause) {
    waiter_.reset();
    return StartRead(&bytes_);
  }
  if (const absl::Status status = WaitOn(); !status.ok() && !absl::IsCancelled(status)) return Fail(status);
  ResumeAfter(std::min(left, kLongestPause));
}

absl::Status AttachStream::MakeRoom(ByteCharge* charge) {
  if (key_.job.empty() && incoming_.has_hello()) {
    if (absl::Status status = Identify(incoming_.hello()); !status.ok()) return status;
  }
  paused_.Release();
  if (account_ == nullptr) return absl::OkStatus();
  return account_->Take(ByteKind::kEvents, BytesOfEvent(incoming_bytes_), ByteClass::kJob, charge);
}

bool AttachStream::Hold(int64_t bytes) {
  if (account_ == nullptr) return true;
  paused_ = account_->Add(ByteKind::kPaused, bytes);
  if (!account_->IsOver(BytePool::kPaused)) return true;
  account_->CountShed(ByteKind::kPaused);
  Fail(WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("tenant ", access_.tenant, " has too many messages that wait: ",
                                                account_->limit(BytePool::kPaused), " bytes of a stream are the most")),
      kRetryWhenFull));
  return false;
}

void AttachStream::Pause() {
  const int64_t bytes = BytesOfEvent(incoming_bytes_);
  if (!Hold(bytes)) return;
  waits_for_room_ = true;
  const std::shared_ptr<grpc::Alarm> alarm = ResumeAfter(kLongestPause);
  account_->AwaitRoom(BytePool::kQueued, bytes, alarm, [weak = std::weak_ptr<grpc::Alarm>(alarm)] {
    if (const std::shared_ptr<grpc::Alarm> waiting = weak.lock()) waiting->Cancel();
  });
}

std::shared_ptr<grpc::Alarm> AttachStream::ResumeAfter(absl::Duration delay) {
  const auto alarm = std::make_shared<grpc::Alarm>();
  resume_alarm_ = alarm;
  alarm->Set(SpanOf(delay), [weak = weak_from_this()](bool) {
    if (const std::shared_ptr<AttachStream> stream = weak.lock()) stream->Resume();
  });
  return alarm;
}

void AttachStream::Resume() {
  const bool waited_for_room = std::exchange(waits_for_room_, false);
  ResumeBy([this, waited_for_room] {
    if (waited_for_room) return TakeIn();
    AwaitPace();
  });
}

void AttachStream::ResumeBy(absl::FunctionRef<void()> go_on) {
  bool is_broken = false;
  {
    absl::MutexLock lock(&mutex_);
    if (context_ == nullptr || end_.has_value()) return;
    ++resuming_;
    is_broken = context_->IsCancelled();
  }
  if (is_broken) {
    paused_.Release();
    waiter_.reset();
    StartRead(&bytes_);
  } else {
    go_on();
  }
  {
    absl::MutexLock lock(&mutex_);
    --resuming_;
  }
  Proceed();
}

absl::Status AttachStream::Receive(ByteCharge charge) {
  StreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = id_;
  }
  if (id == 0) {
    if (!incoming_.has_hello()) return absl::InvalidArgumentError("the first message of a stream must be `hello`");
    return Open(std::move(*incoming_.mutable_hello()), std::move(charge));
  }
  if (incoming_.has_hello()) return absl::InvalidArgumentError("`hello` came a second time on this stream");
  return router_->loops().Push(key_, MessageReceived{id, std::move(incoming_)}, std::move(charge));
}

absl::Status AttachStream::Identify(const v1::Hello& hello) {
  absl::StatusOr<JobKey> key = router_->WorkerKeyFor(access_, hello.job());
  if (!key.ok()) return key.status();
  if (absl::Status status = CheckProof(hello.incarnation(), hello.secret()); !status.ok()) return status;
  key_ = *std::move(key);
  if (router_->bytes() != nullptr) {
    account_ = router_->bytes()->Stream(key_.tenant, key_.job);
    pace_ = router_->bytes()->PaceOf(key_.tenant);
  }
  return absl::OkStatus();
}

absl::Status AttachStream::Open(v1::Hello hello, ByteCharge charge) {
  hello.clear_secret();
  const size_t max_streams = size_t{kStreamsPerWorker} * router_->tenants().QuotaOf(key_.tenant).max_workers;
  const absl::StatusOr<StreamId> id = router_->output_router().streams().Add(key_.tenant, max_streams, self_);
  if (!id.ok()) return id.status();
  {
    absl::MutexLock lock(&mutex_);
    id_ = *id;
  }
  hello_alarm_.Cancel();
  router_->metrics().CountStreamOpened();
  // The token may have ended before the stream was in the table.
  if (absl::Status status = router_->tenants().CheckStanding(access_); !status.ok()) return status;
  return router_->loops().Push(key_, StreamOpened{*id, std::move(hello), access_.token_id}, std::move(charge));
}

void AttachStream::OnReadsEnded() {
  bool is_open = false;
  bool was_cancelled = false;
  {
    absl::MutexLock lock(&mutex_);
    was_cancelled = context_->IsCancelled();
    if (end_.has_value()) return;
    is_open = id_ != 0;
  }
  if (!is_open) {
    Close(absl::InvalidArgumentError("the stream ended before its `hello`"));
    return;
  }
  // The job ends the stream after what it has decided about the worker's last messages.
  TellJob(was_cancelled ? "its stream broke" : "it ended its stream");
}

void AttachStream::TellJob(absl::string_view evidence) {
  StreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = id_;
  }
  if (id == 0) return;
  if (absl::Status status = router_->loops().Push(key_, StreamClosed{id, std::string(evidence)}); !status.ok())
    Close(status);
}

void AttachStream::Send(SharedMessage message, SharedCharge charge) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    status = CheckQueue(charge);
    if (status.ok()) {
      queued_bytes_ += BytesOf(charge);
      queue_.push_back({std::move(message), std::move(charge)});
    }
  }
  if (status.ok()) return Proceed();
  if (account_ != nullptr) account_->CountShed(ByteKind::kOutgoing);
  Fail(WithRetryDelay(std::move(status), kRetryWhenFull));
}

absl::Status AttachStream::CheckQueue(const SharedCharge& charge) const {
  if (queue_.size() >= router_->stream_queue_limit()) {
    return absl::ResourceExhaustedError(absl::StrCat("the worker does not read: ", router_->stream_queue_limit(),
                                                     " messages wait for it, which is the most that may"));
  }
  // A single message may always wait.
  if (account_ == nullptr || queue_.empty()) return absl::OkStatus();
  const int64_t most = account_->limit(BytePool::kOutgoing);
  if (queued_bytes_ + BytesOf(charge) > most) {
    return absl::ResourceExhaustedError(absl::StrCat("the worker does not read: ", queued_bytes_,
                                                     " bytes wait for it, and ", most, " are the most that may"));
  }
  if (queued_bytes_ <= kBacklogBytes || !account_->IsOver(BytePool::kOutgoing)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the worker does not read: ", queued_bytes_,
                   " bytes wait for it, and its job or its tenant has no room for more"));
}

void AttachStream::ClearQueue() {
  queue_.clear();
  queued_bytes_ = 0;
}

void AttachStream::Close(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!End(status, /*discard_queue=*/false)) return;
  }
  Proceed();
}

void AttachStream::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!End(status, /*discard_queue=*/true)) return;
  }
  TellJob(status.message());
  Proceed();
}

void AttachStream::CheckStanding() {
  if (const absl::Status status = router_->tenants().CheckStanding(access_); !status.ok()) Fail(status);
}

bool AttachStream::End(const absl::Status& status, bool discard_queue) {
  if (end_.has_value()) return false;
  end_ = status;
  if (discard_queue) ClearQueue();
  return true;
}

void AttachStream::Proceed() {
  std::optional<grpc::Status> finish;
  {
    absl::MutexLock lock(&mutex_);
    if (writing_ && end_.has_value() && !close_alarm_set_) {
      close_alarm_set_ = true;
      CancelAfter(kCloseDeadline, &close_alarm_, /*only_unopened=*/false);
    }
    if (writing_ || finished_ || resuming_ > 0) return;
    if (!queue_.empty()) {
      writing_ = true;
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= BytesOf(outgoing_.charge);
    } else if (end_.has_value()) {
      finished_ = true;
      finish = ToGrpc(*end_);
    } else {
      return;
    }
  }
  if (finish.has_value()) {
    TellIfDenied(router_->audit(), access_.tenant.empty() ? "" : access_.Text(), "WorkerService.Attach", peer_,
                 *finish);
    Finish(*finish);
  } else {
    outgoing_bytes_ = ToBytes(*outgoing_.message);
    StartWrite(&outgoing_bytes_);
  }
}

void AttachStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    outgoing_ = {};
    outgoing_bytes_.Clear();
    // A broken stream takes nothing more; the reading side tells the job.
    if (!ok) ClearQueue();
  }
  Proceed();
}

void AttachStream::CancelAfter(absl::Duration delay, grpc::Alarm* alarm, bool only_unopened) {
  // gRPC adds the span to the monotonic clock.
  alarm->Set(SpanOf(delay), [weak = weak_from_this(), only_unopened](bool due) {
    const std::shared_ptr<AttachStream> stream = due ? weak.lock() : nullptr;
    if (stream == nullptr) return;
    absl::MutexLock lock(&stream->mutex_);
    if (stream->context_ == nullptr || (only_unopened && stream->id_ != 0)) return;
    stream->context_->TryCancel();
  });
}

void AttachStream::OnDone() {
  StreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
    id = id_;
  }
  hello_alarm_.Cancel();
  close_alarm_.Cancel();
  reported_.End();
  if (id != 0) {
    router_->metrics().CountStreamEnded();
    router_->output_router().streams().Remove(id);
  }
  self_.reset();
}

}  // namespace farandole
