#include "base/retry/retry_delay.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "farandole/v1/refusal.pb.h"

namespace farandole {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
// A longer one is not for a program that waits.
constexpr absl::Duration kLongest = absl::Minutes(1);

std::optional<absl::Duration> Parse(const std::string& bytes) {
  v1::RetryDelay info;
  if (!info.ParseFromString(bytes) || !info.has_retry_delay()) return std::nullopt;
  const absl::Duration delay =
      absl::Seconds(info.retry_delay().seconds()) + absl::Nanoseconds(info.retry_delay().nanos());
  return std::clamp(delay, absl::ZeroDuration(), kLongest);
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
  if (!payload.has_value()) return "";
  v1::StatusDetails details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(std::string(status.message()));
  google::protobuf::Any* info = details.add_details();
  info->set_type_url(kRetryInfo);
  info->set_value(std::string(*payload));
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

}  // namespace farandole
