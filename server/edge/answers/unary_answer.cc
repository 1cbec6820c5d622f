#include "server/edge/answers/unary_answer.h"

#include <utility>

#include "base/retry/retry_delay.h"
#include "grpc/support/time.h"
#include "server/edge/answers/status.h"

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

UnaryAnswer* UnaryAnswer::Start(grpc::CallbackServerContext* context, absl::Duration unread_limit) {
  const std::shared_ptr<UnaryAnswer> answer(new UnaryAnswer(context, unread_limit));
  answer->self_ = answer;
  return answer.get();
}

void UnaryAnswer::End(const absl::Status& status, ByteCharge charge) {
  if (RetryDelayOf(status).has_value()) {
    // Deleted by its own callback, while gRPC holds what is behind it.
    auto* alarm = new grpc::Alarm;
    alarm->Set(SpanOf(kRefusalDelay), [answer = shared_from_this(), status, alarm](bool) {
      answer->FinishInTime(status, {});
      delete alarm;
    });
    return;
  }
  FinishInTime(status, std::move(charge));
}

void UnaryAnswer::FinishInTime(const absl::Status& status, ByteCharge charge) {
  const std::shared_ptr<UnaryAnswer> alive = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    charge_ = std::move(charge);
    const absl::Duration limit = unread_limit_ + absl::Seconds(1) * (charge_.bytes() / kLeastBytesPerSecond);
    alarm_.Set(SpanOf(limit), [weak = weak_from_this()](bool is_due) {
      const std::shared_ptr<UnaryAnswer> answer = is_due ? weak.lock() : nullptr;
      if (answer != nullptr) answer->CancelIfUnread();
    });
  }
  Finish(ToGrpc(status));
}

void UnaryAnswer::CancelIfUnread() {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void UnaryAnswer::OnDone() {
  const std::shared_ptr<UnaryAnswer> alive = std::move(self_);
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  alarm_.Cancel();
  charge_.Release();
}

}  // namespace farandole
