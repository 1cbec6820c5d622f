#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_OF_REQUEST_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_OF_REQUEST_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// Describes a checked request in an empty submission, with its signature. `name` is the request's, or the one that an
// unnamed one goes by; `ranks` are those of the group, in which this rank has `position`; `joins` is how often all
// ranks have joined.
void DescribeRequest(const Request& request, absl::string_view name, absl::Span<const int> ranks, int position,
                     uint32_t joins, Submission* submission);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_OF_REQUEST_H_
