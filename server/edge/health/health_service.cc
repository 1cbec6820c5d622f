#include "server/edge/health/health_service.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/support/byte_buffer.h"

namespace farandole {
namespace {

constexpr int64_t kMessageLimitMs = 2'000;
// The name of one of the services is shorter.
constexpr size_t kMostBytes = 256;
constexpr int kServiceUnknown = 3;
// The only field of both messages: the name of a service, and a status.
constexpr char kNameTag = 0x0a;
constexpr char kStatusTag = 0x08;
constexpr char kMoreBytes = static_cast<char>(0x80);

// False: the message is none of HealthCheckRequest's, or has other fields.
bool ReadName(const grpc::ByteBuffer& buffer, std::string* name) {
  std::vector<grpc::Slice> slices;
  if (buffer.Length() > kMostBytes || !buffer.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (bytes.empty()) return true;
  if (bytes.size() < 2 || bytes[0] != kNameTag || (bytes[1] & kMoreBytes) != 0) return false;
  *name = bytes.substr(2);
  return name->size() == static_cast<size_t>(bytes[1]);
}

grpc::ByteBuffer MakeResponse(int status) {
  const char bytes[] = {kStatusTag, static_cast<char>(status)};
  const grpc::Slice slice(bytes, sizeof(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

// One Check or Watch. Owned by itself until gRPC is done with it.
class HealthCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<HealthCall> {
 public:
  static HealthCall* Start(HealthService* service, grpc::CallbackServerContext* context, bool watches) {
    const std::shared_ptr<HealthCall> call(new HealthCall(service, context, watches));
    call->self_ = call;
    if (service->begun_messages_ != nullptr) call->reported_ = service->begun_messages_->Begin(call->peer_, "");
    service->Enter(call.get());
    return call.get();
  }

  void AwaitMessage() {
    absl::MutexLock lock(&mutex_);
    if (is_over_) return;
    alarm_.Set(gpr_time_from_millis(kMessageLimitMs, GPR_TIMESPAN), [weak = weak_from_this()](bool is_due) {
      const std::shared_ptr<HealthCall> call = is_due ? weak.lock() : nullptr;
      if (call != nullptr) call->End(absl::DeadlineExceededError("the call's message has not come"));
    });
    StartRead(&message_);
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    EndLocked(status);
  }
  // Of a Watch: says the status anew, if it is another one.
  void Tell() {
    absl::MutexLock lock(&mutex_);
    TellLocked();
  }

 private:
  HealthCall(HealthService* service, grpc::CallbackServerContext* context, bool watches)
      : service_(service), peer_(context->peer()), watches_(watches), context_(context) {}

  void OnReadDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    alarm_.Cancel();
    if (ok) reported_.OnMessage(static_cast<int64_t>(message_.Length()));
    if (is_over_) return;
    if (!ok) return EndLocked(absl::CancelledError("the call ended without a message"));
    if (!ReadName(message_, &name_)) return EndLocked(absl::InvalidArgumentError("this is no HealthCheckRequest"));
    is_asked_ = true;
    const int status = service_->StatusOf(name_);
    if (watches_) return TellLocked();
    if (status == 0) return EndLocked(absl::NotFoundError("the server has no such service"));
    is_over_ = true;
    answer_ = MakeResponse(status);
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    is_writing_ = false;
    if (is_over_) return Finish(end_);
    if (ok) TellLocked();
  }
  void OnCancel() override { End(absl::CancelledError("its client has gone")); }
  void OnDone() override {
    service_->Leave(this);
    {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
      reported_.End();
    }
    const std::shared_ptr<HealthCall> alive = std::move(self_);
  }

  void TellLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_over_ || !watches_ || !is_asked_ || is_writing_) return;
    const int status = service_->StatusOf(name_);
    const int told = status == 0 ? kServiceUnknown : status;
    if (told == told_) return;
    told_ = told;
    is_writing_ = true;
    answer_ = MakeResponse(told);
    StartWrite(&answer_);
  }
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(is_over_, true)) return;
    end_ = grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
    if (!is_writing_) return Finish(end_);
    // A client that does not read would hold the write, and its end.
    if (context_ != nullptr) context_->TryCancel();
  }

  friend class HealthService;

  HealthService* const service_;
  // The service's mutex guards its place there.
  std::list<HealthCall*>::iterator place_;
  bool has_place_ = false;
  const std::string peer_;
  const bool watches_;
  std::shared_ptr<HealthCall> self_;
  // Before the service's.
  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  int told_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
  // Null: gRPC is done with the call.
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
  std::string name_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer message_;
  grpc::ByteBuffer answer_;
  BegunMessages::Call reported_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

HealthService::HealthService(std::vector<std::string> services, Bounds bounds, BegunMessages* begun_messages)
    : services_(std::move(services)), bounds_(bounds), begun_messages_(begun_messages) {
  using StreamMethod = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  using grpc::internal::RpcMethod;
  int index = 0;
  for (const char* name : {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    AddMethod(new grpc::internal::RpcServiceMethod(name, RpcMethod::BIDI_STREAMING, nullptr));
    const bool watches = index == 1;
    MarkMethodRawCallback(index++, new StreamMethod([this, watches](grpc::CallbackServerContext* context) {
                            return HealthCall::Start(this, context, watches);
                          }));
  }
}

void HealthService::Enter(HealthCall* call) {
  std::shared_ptr<HealthCall> oldest;
  bool is_refused = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto own = of_connection_.find(call->peer_);
    is_refused = is_stopped_ || (own != of_connection_.end() && own->second >= bounds_.calls_of_connection);
    if (!is_refused) {
      call->place_ = calls_.insert(calls_.end(), call);
      call->has_place_ = true;
      ++of_connection_[call->peer_];
      if (calls_.size() > bounds_.calls) {
        oldest = calls_.front()->shared_from_this();
        Forget(oldest.get());
      }
    }
  }
  if (is_refused) return call->End(absl::ResourceExhaustedError("this connection has too many calls of Health"));
  if (oldest != nullptr) oldest->End(absl::ResourceExhaustedError("there are too many calls of Health"));
  call->AwaitMessage();
}

void HealthService::Leave(HealthCall* call) {
  absl::MutexLock lock(&mutex_);
  Forget(call);
}

void HealthService::Forget(HealthCall* call) {
  if (!std::exchange(call->has_place_, false)) return;
  calls_.erase(call->place_);
  const auto own = of_connection_.find(call->peer_);
  if (--own->second == 0) of_connection_.erase(own);
}

int HealthService::StatusOf(absl::string_view service) {
  const bool is_known = service.empty() || std::find(services_.begin(), services_.end(), service) != services_.end();
  absl::MutexLock lock(&mutex_);
  return !is_known ? 0 : is_serving_ ? 1 : 2;
}

std::vector<std::shared_ptr<HealthCall>> HealthService::Calls() {
  std::vector<std::shared_ptr<HealthCall>> calls;
  for (HealthCall* const call : calls_) calls.push_back(call->shared_from_this());
  return calls;
}

void HealthService::SetServing(bool is_serving) {
  std::vector<std::shared_ptr<HealthCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    is_serving_ = is_serving;
    calls = Calls();
  }
  for (const auto& call : calls) call->Tell();
}

void HealthService::Stop() {
  std::vector<std::shared_ptr<HealthCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
    calls = Calls();
  }
  for (const auto& call : calls) call->End(absl::UnavailableError("the server stops"));
}

}  // namespace farandole
