#ifndef FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_
#define FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// Everything for a report of a bug, as the bytes of a .tar.gz: the evidence for people and for programs, the job, and
// each rank by itself. It has no tokens. `source` says who made it ("`farandole diagnose`"), `now` when.
//   INTERNAL  zlib could not compress it
absl::StatusOr<std::string> PackEvidence(const v1::GetJobResponse& job, const v1::DiagnoseResponse& answer,
                                         absl::string_view source, absl::Time now);

// The answer with at most `most_bytes` of the ranks' evidence, as it is serialized: first that of the ranks that others
// wait for. Where a rank's evidence has no room, a sentence replaces it, which PackEvidence shows. The groups of stacks
// repeat what the evidence has: the first ones are kept, up to half of `most_bytes`.
v1::DiagnoseResponse EvidenceWithin(const v1::DiagnoseResponse& answer, size_t most_bytes);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_
