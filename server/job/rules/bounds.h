#ifndef FARANDOLE_SERVER_JOB_RULES_BOUNDS_H_
#define FARANDOLE_SERVER_JOB_RULES_BOUNDS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// The bounds that worker.proto states beside its fields. Each check answers OK, or INVALID_ARGUMENT with a sentence
// that names the field, the value and the bound. Checks that depend on a job's state are elsewhere.

inline constexpr uint32_t kProtocolVersion = 1;

// 1 to 128 letters, digits, '.', '_' and '-'. A job may name a folder, as of its events for TensorBoard: "." and ".."
// are no names.
absl::Status CheckJobName(absl::string_view job);

// FAILED_PRECONDITION: another protocol version (both named).
absl::Status CheckCreateJob(const v1::CreateJobRequest& request);
absl::Status CheckJoin(const v1::JoinRequest& request);
absl::Status CheckReportFlight(const v1::ReportFlightRequest& request);
absl::Status CheckReportExit(const v1::ReportExitRequest& request);
absl::Status CheckHello(const v1::Hello& hello);
// A message after hello, on the stream of a worker whose epoch has `size` ranks (0: it is in none). The content of a
// Ready is not checked beyond its name: errors in a tensor are for all ranks of its group (see agreement.h).
absl::Status CheckMessage(const v1::WorkerMessage& message, size_t size);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_BOUNDS_H_
