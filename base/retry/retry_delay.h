#ifndef FARANDOLE_BASE_RETRY_RETRY_DELAY_H_
#define FARANDOLE_BASE_RETRY_RETRY_DELAY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

// Refusals that pass: a status says when the same may be asked for again. Over gRPC that is google.rpc.RetryInfo in the
// status's details. A RESOURCE_EXHAUSTED that is final has a google.rpc.ErrorInfo there: gRPC itself has that code too,
// without details, for calls that it sheds.

// The delay that refusals for want of room name: a burst is over by then, and those that wait do not crowd.
inline constexpr absl::Duration kRetryWhenFull = absl::Seconds(1);

// `status`, an error, with that time.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
// nullopt: the status does not say that it passes.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// A serialized google.rpc.Status for gRPC's details; "" where RetryDelayOf has none and the code is not
// RESOURCE_EXHAUSTED.
std::string ErrorDetailsOf(const absl::Status& status);
// From such details, whatever they are; nullopt: none, or not to be read. At most a minute.
std::optional<absl::Duration> RetryDelayIn(absl::string_view error_details);

// Whether gRPC itself ended the call, since memory had run out there, and the program that it called said nothing:
// RESOURCE_EXHAUSTED with such details and this message. The same may go well later.
bool IsShedByGrpc(absl::string_view error_details, absl::string_view message);

}  // namespace farandole

#endif  // FARANDOLE_BASE_RETRY_RETRY_DELAY_H_
