#include "server/edge/answers/unary_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "grpc/support/time.h"
#include "server/edge/answers/status.h"
#include "server/edge/messages/received_message.h"

namespace farandole {
namespace {

// A client that asks again at once, whatever the refusal says, costs little.
constexpr absl::Duration kRefusalDelay = absl::Milliseconds(200);

// Of a call that is not over: 4,000 with small answers took 105 MiB.
constexpr int64_t kCallBytes = 24 << 10;

// A client that reads an answer as slowly as this gets it all the same. Of charged bytes, two for each on the way.
constexpr int64_t kLeastBytesPerSecond = 256 << 10;

gpr_timespec SpanOf(absl::Duration delay) { return gpr_time_from_nanos(absl::ToInt64Nanoseconds(delay), GPR_TIMESPAN); }

}  // namespace

int64_t BytesOfAnswer(const google::protobuf::Message& answer) {
  return kCallBytes + static_cast<int64_t>(answer.SpaceUsedLong() + answer.ByteSizeLong());
}

UnaryCall* UnaryCall::Start(grpc::CallbackServerContext* context, absl::Duration unread_limit) {
  const std::shared_ptr<UnaryCall> call(new UnaryCall(context, unread_limit));
  call->self_ = call;
  return call.get();
}

void UnaryCall::Await(std::function<void(grpc::ByteBuffer)> take, absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  take_ = std::move(take);
  is_awaiting_ = true;
  message_alarm_.Set(SpanOf(limit), [limit, weak = weak_from_this()](bool is_due) {
    const std::shared_ptr<UnaryCall> call = is_due ? weak.lock() : nullptr;
    if (call == nullptr) return;
    call->Refuse(absl::DeadlineExceededError(
        absl::StrCat("the call's message has not come within ", absl::FormatDuration(limit))));
  });
}

void UnaryCall::Report(BegunMessages::Call to) {
  absl::MutexLock lock(&mutex_);
  reported_ = std::move(to);
}

void UnaryCall::Read(ReadingPlaces::Place place) {
  absl::MutexLock lock(&mutex_);
  if (!is_awaiting_) return;
  place_ = std::move(place);
  is_reading_ = true;
  StartRead(&bytes_);
}

bool UnaryCall::StopAwaiting() {
  // Another call may go on when it is given back.
  ReadingPlaces::Place place;
  absl::MutexLock lock(&mutex_);
  place = std::move(place_);
  message_alarm_.Cancel();
  return std::exchange(is_awaiting_, false);
}

void UnaryCall::Refuse(const absl::Status& status) {
  if (StopAwaiting()) FinishInTime(status, {});
}

void UnaryCall::OnReadDone(bool ok) {
  if (ok) {
    absl::MutexLock lock(&mutex_);
    reported_.OnMessage(bytes_.Valid() ? static_cast<int64_t>(bytes_.Length()) : 0);
  }
  if (!StopAwaiting()) return;
  if (!ok) return FinishInTime(absl::CancelledError("the call ended without a message"), {});
  take_(std::exchange(bytes_, {}));
}

void UnaryCall::OnCancel() {
  bool is_reading = false;
  {
    absl::MutexLock lock(&mutex_);
    is_reading = is_reading_;
  }
  // Else OnReadDone comes.
  if (!is_reading) Refuse(absl::CancelledError("its client has gone"));
}

void UnaryCall::End(const absl::Status& status, ByteCharge charge) {
  request_.reset();
  request_charge_.Release();
  if (RetryDelayOf(status).has_value()) {
    // Deleted by its own callback, while gRPC holds what is behind it.
    auto* alarm = new grpc::Alarm;
    alarm->Set(SpanOf(kRefusalDelay), [call = shared_from_this(), status, alarm](bool) {
      call->FinishInTime(status, {});
      delete alarm;
    });
    return;
  }
  FinishInTime(status, std::move(charge));
}

void UnaryCall::FinishInTime(const absl::Status& status, ByteCharge charge) {
  const std::shared_ptr<UnaryCall> alive = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    charge_ = std::move(charge);
    const absl::Duration limit = unread_limit_ + absl::Seconds(1) * (charge_.bytes() / kLeastBytesPerSecond);
    alarm_.Set(SpanOf(limit), [weak = weak_from_this()](bool is_due) {
      const std::shared_ptr<UnaryCall> call = is_due ? weak.lock() : nullptr;
      if (call != nullptr) call->CancelIfUnread();
    });
  }
  if (!status.ok() || response_ == nullptr) return Finish(ToGrpc(status));
  bytes_ = ToBytes(*response_);
  StartWriteAndFinish(&bytes_, grpc::WriteOptions(), ToGrpc(status));
}

void UnaryCall::CancelIfUnread() {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void UnaryCall::OnDone() {
  const std::shared_ptr<UnaryCall> alive = std::move(self_);
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  reported_.End();
  alarm_.Cancel();
  charge_.Release();
}

}  // namespace farandole
