#include "server/spans/retry_after.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"

namespace farandole {

absl::Duration RetryAfter(absl::string_view header, absl::Time now) {
  uint32_t seconds = 0;
  if (absl::SimpleAtoi(header, &seconds)) return std::min(absl::Seconds(seconds), kLongestRetryAfter);
  absl::Time date;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", std::string(header), &date, nullptr)) return absl::ZeroDuration();
  return std::clamp(date - now, absl::ZeroDuration(), kLongestRetryAfter);
}

}  // namespace farandole
