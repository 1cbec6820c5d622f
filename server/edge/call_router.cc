#include "server/edge/call_router.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "server/edge/caller/call_pace.h"
#include "server/edge/caller/caller.h"
#include "server/loop/event_bytes.h"

namespace farandole {
namespace {

// A client that asks again at once, whatever the refusal says, costs little.
constexpr absl::Duration kRefusalDelay = absl::Milliseconds(200);
constexpr size_t kMaxJobNameBytes = 128;
// Of a job's name, at the beginning of the names of its parts (worker/launch/part_name.cc).
constexpr size_t kMostParentBytes = 87;

// Whether `name` may be that of a job which some workers of `job` form among themselves: "train.0-3".
bool IsPart(const std::string& job, absl::string_view name) {
  return absl::ConsumePrefix(&name, job.substr(0, kMostParentBytes)) && absl::ConsumePrefix(&name, ".") &&
         !name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name[0]));
}

}  // namespace

absl::Status CheckJobName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= kMaxJobNameBytes && std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("job: \"", absl::CHexEscape(name.substr(0, kMaxJobNameBytes)), "\" (",
                                                 name.size(), " bytes) is not 1 to ", kMaxJobNameBytes,
                                                 " bytes of [A-Za-z0-9._-]"));
}

absl::StatusOr<Access> CallRouter::Authenticate(const grpc::CallbackServerContext& context, Right right) {
  absl::StatusOr<Access> access = AuthenticateWorker(context, right);
  if (!access.ok() || !access->IsOfRun()) return access;
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat(access->Text(), " is for its workers' calls only"));
}

absl::StatusOr<Access> CallRouter::AuthenticateWorker(const grpc::CallbackServerContext& context, Right right) {
  absl::StatusOr<Access> access = CallerOf(*tenants_, context);
  if (access.ok()) listener_->OnToken(context.peer(), access->tenant);
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

void CallRouter::TakePaceOfAnswer(const Access& access, size_t bytes) {
  const int64_t rest = static_cast<int64_t>(bytes) - kPaceMessageBytes;
  if (bytes_ != nullptr && HasPace(access) && rest > 0) bytes_->LooksOf(access.tenant)->Take(rest, SteadyNow());
}

absl::StatusOr<JobKey> CallRouter::KeyOf(const grpc::CallbackServerContext& context, Right right,
                                         const std::string& job, const std::string& tenant) {
  const absl::StatusOr<Access> access = Authenticate(context, right);
  return access.ok() ? KeyFor(*access, job, tenant) : access.status();
}

absl::StatusOr<JobKey> CallRouter::WorkerKeyFor(const absl::StatusOr<Access>& access, const std::string& job) {
  if (!access.ok()) return access.status();
  if (!access->IsOfRun() || job == access->job || IsPart(access->job, job)) return KeyFor(*access, job, "");
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(
      absl::StrCat(access->Text(), " is not for job ", absl::CHexEscape(job.substr(0, kMaxJobNameBytes))));
}

absl::StatusOr<JobKey> CallRouter::KeyFor(const Access& access, const std::string& job, const std::string& tenant) {
  if (absl::Status status = CheckJobName(job); !status.ok()) return status;
  if (tenant.empty() || tenant == access.tenant) return JobKey{access.tenant, job};
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  if (IsOfCluster(access.role)) return JobKey{tenant, job};
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat(access.Text(), " does not show the jobs of tenant ", tenant));
}

grpc::ServerUnaryReactor* CallRouter::Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!RetryDelayOf(status).has_value()) {
    reactor->Finish(ToGrpc(status));
    return reactor;
  }
  // Deleted by its own callback, while gRPC holds what is behind it.
  auto* alarm = new grpc::Alarm;
  alarm->Set(gpr_time_from_nanos(absl::ToInt64Nanoseconds(kRefusalDelay), GPR_TIMESPAN),
             [reactor, status, alarm](bool) {
               reactor->Finish(ToGrpc(status));
               delete alarm;
             });
  return reactor;
}

absl::Status CallRouter::CheckNotDraining() const {
  return draining_ ? absl::UnavailableError("the coordinator is draining: it takes no new workers; retry")
                   : absl::OkStatus();
}

void CallRouter::Send(const JobKey& key, const std::function<Event(CallId)>& make_event, CallTable::Finish finish) {
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
  if (status.ok()) status = loops_->Push(key, std::move(event), std::move(charge));
  if (!status.ok()) output_router_->calls().Answer(Reply{call, status, {}});
}

}  // namespace farandole
