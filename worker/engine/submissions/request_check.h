#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_REQUEST_CHECK_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_REQUEST_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// INVALID_ARGUMENT: the name is not UTF-8, as messages need it. The sentence shows it escaped.
absl::Status CheckNameText(absl::string_view name);

// Checks a request as far as that needs no epoch. INVALID_ARGUMENT, UNIMPLEMENTED: one sentence that begins with
// `name`.
absl::Status CheckRequest(absl::string_view name, const Request& request);

// Whether a checked request suits this position of a group of `ranks`, which ascend: its root, the splits of an
// alltoall, the output of a reducescatter. INVALID_ARGUMENT: as above.
absl::Status CheckInGroup(absl::string_view name, const Request& request, absl::Span<const int> ranks, int position);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_REQUEST_CHECK_H_
