#ifndef FARANDOLE_SERVER_SPANS_RETRY_AFTER_H_
#define FARANDOLE_SERVER_SPANS_RETRY_AFTER_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

// The most that a server may ask for.
inline constexpr absl::Duration kLongestRetryAfter = absl::Minutes(5);

// The pause that HTTP's header Retry-After asks for at `now`, of the wall clock: seconds, or a date (RFC 9110, 10.2.3).
// Zero where it is none, or has passed.
absl::Duration RetryAfter(absl::string_view header, absl::Time now);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_RETRY_AFTER_H_
