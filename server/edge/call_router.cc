#include "server/edge/call_router.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "base/text/part_name.h"
#include "base/text/plain_text.h"
#include "server/edge/caller/caller.h"
#include "server/edge/messages/call_bound.h"
#include "server/job/rules/bounds.h"
#include "server/loop/event_bytes.h"

namespace farandole {

absl::StatusOr<Access> CallRouter::Authenticate(const grpc::CallbackServerContext& context, Right right) {
  absl::StatusOr<Access> access = AuthenticateWorker(context, right);
  if (!access.ok() || !access->IsOfRun()) return access;
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat(access->Text(), " is for its workers' calls only"));
}

absl::StatusOr<Access> CallRouter::AuthenticateWorker(const grpc::CallbackServerContext& context, Right right) {
  absl::StatusOr<Access> access = CallerOf(*tenants_, context);
  if (access.ok()) listener_->OnToken(context.peer(), *access);
  if (access.ok() && !access->IsOfRun() && !Has(access->role, right))
    access = absl::PermissionDeniedError(absl::StrCat(access->Text(), " may not ", Describe(right)));
  if (!access.ok()) metrics_->CountDeniedCall();
  if (absl::Status pace = access.ok() ? TakePace(*access, right) : absl::OkStatus(); !pace.ok()) return pace;
  return access;
}

absl::Status CallRouter::TakePace(const Access& access, Right right, int64_t bytes) {
  if (bytes_ == nullptr || !HasPace(access)) return absl::OkStatus();
  const std::shared_ptr<Pace> pace = bytes_->PaceOf(access.tenant);
  const absl::Time now = SteadyNow();
  if (right != Right::kView) {
    pace->Take(bytes, now);
    return absl::OkStatus();
  }
  // Those that are refused take nothing: their sender may look again when what came before is paid for.
  const std::shared_ptr<Pace> looks = bytes_->LooksOf(access.tenant);
  const bool sends_more = pace->Wait(now) > absl::ZeroDuration();
  if (!sends_more && looks->Wait(now) == absl::ZeroDuration()) {
    looks->Take(bytes, now);
    return absl::OkStatus();
  }
  return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                            "tenant ", access.tenant, sends_more ? " sends" : " asks for", " more than ",
                            static_cast<double>(bytes_->tenant_rate()) / (1 << 20), " MiB of ",
                            sends_more ? "messages" : "answers", " in a second (--tenant-mib-per-s), so calls that ",
                            "look are not answered; retry in ", absl::FormatDuration(kRetryWhenFull))),
                        kRetryWhenFull);
}

LargeReader::Sender CallRouter::SenderOf(const Access& access, LargeReader::Kind kind) {
  LargeReader::Sender sender{access.Owner(), absl::StrCat(access.token_id, "/", access.job), nullptr, kind};
  if (bytes_ == nullptr || !HasPace(access)) return sender;
  sender.pace =
      kind == LargeReader::Kind::kCall ? bytes_->LargeCallsOf(access.tenant) : bytes_->LargeStreamedOf(access.tenant);
  return sender;
}

void CallRouter::Await(UnaryCall* call, const google::protobuf::MethodDescriptor& method,
                       google::protobuf::Message* request, std::function<void()> go_on) {
  call->Await([this, call, &method, request, go_on = std::move(go_on)](grpc::ByteBuffer bytes) {
    Read(call, method, std::move(bytes), request, go_on);
  });
  const absl::StatusOr<Access> access = CallerOf(*tenants_, call->context());
  if (!access.ok()) {
    metrics_->CountDeniedCall();
    return call->Refuse(access.status());
  }
  listener_->OnToken(call->context().peer(), *access);
  call->Report(Report(call->context().peer(), *access));
  const std::weak_ptr<UnaryCall> weak = call->weak_from_this();
  const absl::Status status = AwaitPlace(*access, {weak, [weak](ReadingPlaces::Place place) {
                                                     if (const std::shared_ptr<UnaryCall> one = weak.lock())
                                                       one->Read(std::move(place));
                                                   }});
  if (!status.ok()) call->Refuse(status);
}

absl::Status CallRouter::AwaitPlace(const Access& access, ReadingPlaces::Waiter waiter) {
  // A token's, or those of a run's workers.
  return reading_places_.Enter({access.Owner(), absl::StrCat(access.token_id, "/", access.job)}, std::move(waiter));
}

BegunMessages::Call CallRouter::Report(const std::string& peer, const Access& access) {
  return begun_messages_ == nullptr ? BegunMessages::Call() : begun_messages_->Begin(peer, access.Owner());
}

void CallRouter::Read(UnaryCall* call, const google::protobuf::MethodDescriptor& method, grpc::ByteBuffer bytes,
                      google::protobuf::Message* request, std::function<void()> go_on) {
  const auto wire_bytes = static_cast<int64_t>(bytes.Valid() ? bytes.Length() : 0);
  if (absl::Status bound = CheckBound(method, wire_bytes); !bound.ok()) return RefuseMessage(call, bound, wire_bytes);
  auto large = std::make_unique<LargeCall>(
      call, std::move(bytes), request, [this, call, wire_bytes, go_on = std::move(go_on)](const absl::Status& read) {
        read.ok() ? go_on() : RefuseMessage(call, read, wire_bytes);
      });
  if (wire_bytes <= kLargeCallBytes) {
    const absl::StatusOr<int64_t> weight = large->Weigh();
    if (!weight.ok()) return RefuseMessage(call, weight.status(), wire_bytes);
    if (*weight <= kLargeCallBytes) {
      large->Read();
      return;
    }
  }
  const absl::Status added = AwaitReader(call->context(), BoundOf(method).right, wire_bytes, std::move(large));
  if (!added.ok()) call->End(added);
}

void CallRouter::RefuseMessage(UnaryCall* call, const absl::Status& status, int64_t wire_bytes) {
  const absl::StatusOr<Access> access = CallerOf(*tenants_, call->context());
  // As a call that is no look, it owes nothing before it is answered.
  if (access.ok()) TakePace(*access, Right::kLaunch, kPaceMessageBytes + wire_bytes).IgnoreError();
  metrics_->CountDeniedCall();
  call->End(status);
}

absl::Status CallRouter::AwaitReader(const grpc::CallbackServerContext& context, std::optional<Right> right,
                                     int64_t wire_bytes, std::unique_ptr<LargeCall> large) {
  const absl::StatusOr<Access> access =
      right.has_value() ? Authenticate(context, *right) : CallerOf(*tenants_, context);
  if (!access.ok()) return access.status();
  LargeCall::Caller caller{nullptr, [tenants = tenants_, access = *access] { return tenants->CheckStanding(access); }};
  if (bytes_ != nullptr && HasPace(*access)) caller.account = bytes_->Tenant(access->tenant);
  if (absl::Status room = large->Charge(wire_bytes, std::move(caller)); !room.ok()) return room;
  return large_reader_.Add(SenderOf(*access, LargeReader::Kind::kCall), wire_bytes, std::move(large));
}

void CallRouter::TakePaceOfAnswer(const Access& access, size_t bytes, int64_t reserved) {
  const int64_t rest = std::max<int64_t>(0, static_cast<int64_t>(bytes) - kPaceMessageBytes) - reserved;
  if (bytes_ != nullptr && HasPace(access) && rest != 0) bytes_->LooksOf(access.tenant)->Take(rest, SteadyNow());
}

int64_t CallRouter::ReservePace(const Access& access) {
  if (bytes_ == nullptr || !HasPace(access)) return 0;
  bytes_->LooksOf(access.tenant)->Take(kPaceReserveBytes, SteadyNow());
  return kPaceReserveBytes;
}

absl::StatusOr<ByteCharge> CallRouter::HoldAnswer(const Access& access, const google::protobuf::Message& answer) {
  ByteCharge charge;
  if (bytes_ == nullptr || !HasPace(access)) return charge;
  const std::shared_ptr<ByteAccount> account = bytes_->Tenant(access.tenant);
  const int64_t bytes = BytesOfAnswer(answer);
  const bool is_first = account->held(ByteKind::kAnswers) == 0 && !account->IsOver(BytePool::kAnswers);
  const absl::Status room = account->Take(ByteKind::kAnswers, bytes, ByteClass::kObserver, &charge);
  if (room.ok()) return charge;
  if (is_first) return account->Add(ByteKind::kAnswers, bytes);
  // Also of one that is larger than the share: it fits when the others have been read.
  return RetryDelayOf(room).has_value() ? room : WithRetryDelay(room, kRetryWhenFull);
}

absl::StatusOr<JobKey> CallRouter::WorkerKeyFor(const absl::StatusOr<Access>& access, const std::string& job) {
  if (!access.ok()) return access.status();
  if (absl::Status status = CheckJobName(job); !status.ok()) return status;
  if (!access->IsOfRun() || job == access->job || ReadPart(access->job, job).has_value())
    return KeyFor(*access, job, "");
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat(access->Text(), " is not for job ", Plain(job)));
}

absl::StatusOr<JobKey> CallRouter::KeyFor(const Access& access, const std::string& job, const std::string& tenant) {
  if (absl::Status status = CheckJobName(job); !status.ok()) return status;
  if (tenant.empty() || tenant == access.tenant) return JobKey{access.tenant, job};
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  if (IsOfCluster(access.role)) return JobKey{tenant, job};
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat(access.Text(), " does not show the jobs of tenant ", tenant));
}

absl::StatusOr<CallRouter::About> CallRouter::Identify(const grpc::CallbackServerContext& context, Right right,
                                                       const std::string& job, const std::string& tenant) {
  const absl::StatusOr<Access> caller = Authenticate(context, right);
  if (!caller.ok()) return caller.status();
  absl::StatusOr<JobKey> key = KeyFor(*caller, job, tenant);
  if (!key.ok()) return key.status();
  return About{*caller, *std::move(key)};
}

absl::Status CallRouter::CheckNotDraining() const {
  return draining_ ? absl::UnavailableError("the coordinator is draining: it takes no new workers; retry")
                   : absl::OkStatus();
}

void CallRouter::Send(const JobKey& key, const std::function<Event(CallId)>& make_event, CallTable::Finish finish,
                      bool of_cluster) {
  if (queue_ != nullptr) {
    finish = [queue = queue_, key, finish = std::move(finish)](const absl::Status& status, ReplyMessage message) {
      queue->Overlay(key, &message);
      finish(status, std::move(message));
    };
  }
  const CallId call = output_router_->calls().Add(std::move(finish));
  Event event = make_event(call);
  if (queue_ != nullptr) {
    if (std::optional<Reply> reply = queue_->Answer(key, event); reply.has_value())
      return output_router_->calls().Answer(*std::move(reply));
  }
  ByteCharge charge;
  absl::Status status;
  if (bytes_ != nullptr) {
    status = bytes_->Job(key.tenant, key.job)->Take(ByteKind::kEvents, BytesOf(event), ClassOf(event), &charge);
  }
  if (status.ok()) status = loops_->Push(key, std::move(event), std::move(charge), of_cluster);
  if (!status.ok()) output_router_->calls().Answer(Reply{call, status, {}});
}

}  // namespace farandole
