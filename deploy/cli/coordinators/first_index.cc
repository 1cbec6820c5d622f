#include "deploy/cli/coordinators/first_index.h"

#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/job_state.h"

namespace farandole {
namespace {

// A launch starts at most so many workers; so many ranges fit an int32.
constexpr int kIndexRange = 65536;
constexpr int kIndexRanges = 32767;

}  // namespace

absl::StatusOr<int> FindFirstIndex(const CoordinatorSession& session, const std::string& job, absl::Duration patience,
                                   const std::function<bool()>& interrupted) {
  const absl::StatusOr<v1::GetJobResponse> found = session.GetJob("", job, patience, interrupted);
  if (absl::IsNotFound(found.status())) return 0;
  if (!found.ok()) {
    return absl::Status(found.status().code(), absl::StrCat("it is not known whether job '", job,
                                                            "' runs already, so its new workers cannot be numbered: ",
                                                            found.status().message()));
  }
  if (!IsActive(found->summary().state())) return 0;
  std::random_device source;
  return kIndexRange * std::uniform_int_distribution<int>(1, kIndexRanges - 1)(source);
}

}  // namespace farandole
