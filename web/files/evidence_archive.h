#ifndef FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_
#define FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_

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

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_EVIDENCE_ARCHIVE_H_
