#include "base/retry/retry_delay.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "farandole/v1/refusal.pb.h"

namespace farandole {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kReason[] = "BOUND_REACHED";
constexpr char kDomain[] = "farandole.dev";
// gRPC takes trailers of 8 KiB, and the details have the sentence a second time. A longer one is not marked; it is none
// of gRPC's either.
constexpr size_t kMostMarkedBytes = 1024;
// A longer one is not for a program that waits.
constexpr absl::Duration kLongest = absl::Minutes(1);

std::optional<absl::Duration> Parse(const std::string& bytes) {
  v1::RetryDelay info;
  if (!info.ParseFromString(bytes) || !info.has_retry_delay()) return std::nullopt;
  const absl::Duration delay =
      absl::Seconds(info.retry_delay().seconds()) + absl::Nanoseconds(info.retry_delay().nanos());
  return std::clamp(delay, absl::ZeroDuration(), kLongest);
}

std::string ReasonBytes() {
  v1::RefusalReason reason;
  reason.set_reason(kReason);
  reason.set_domain(kDomain);
  return reason.SerializeAsString();
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  v1::RetryDelay info;
  const int64_t seconds = absl::ToInt64Seconds(delay);
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay - absl::Seconds(seconds))));
  status.SetPayload(kRetryInfo, absl::Cord(info.SerializeAsString()));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfo);
  return payload.has_value() ? Parse(std::string(*payload)) : std::nullopt;
}

std::string ErrorDetailsOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfo);
  const bool is_final = !payload.has_value() && absl::IsResourceExhausted(status);
  if (!payload.has_value() && (!is_final || status.message().size() > kMostMarkedBytes)) return "";
  v1::StatusDetails details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(std::string(status.message()));
  google::protobuf::Any* info = details.add_details();
  info->set_type_url(is_final ? kErrorInfo : kRetryInfo);
  info->set_value(is_final ? ReasonBytes() : std::string(*payload));
  return details.SerializeAsString();
}

std::optional<absl::Duration> RetryDelayIn(absl::string_view error_details) {
  v1::StatusDetails details;
  if (error_details.empty() || !details.ParseFromString(std::string(error_details))) return std::nullopt;
  for (const google::protobuf::Any& detail : details.details()) {
    if (detail.type_url() == kRetryInfo) return Parse(detail.value());
  }
  return std::nullopt;
}

bool IsShedByGrpc(absl::string_view error_details, absl::string_view message) {
  // Its words decide besides, for two kinds of refusals have no details and are final: those of coordinators of before
  // December 2026, which always have a sentence of their own, and gRPC's of messages that are larger than the maximum.
  // To repeat the first would keep a job waiting for minutes that has no place, the second would never end.
  if (!error_details.empty()) return false;
  return message.empty() || absl::StrContains(message, "RST_STREAM") || absl::StrContains(message, "GOAWAY");
}

}  // namespace farandole
