#include "worker/launch/launch_record.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

constexpr char kOk[] = "farandole launch 1";
constexpr char kFailed[] = "farandole failed 1";

}  // namespace

std::string EncodeLaunchRecord(const LaunchRecord& record) {
  return absl::StrCat(kOk, "\n", absl::StrJoin(record.addresses, " "), "\n", record.token, "\n", record.job, "\n",
                      record.ca_pem);
}

std::string EncodeLaunchFailure(absl::string_view sentence) { return absl::StrCat(kFailed, "\n", sentence); }

absl::StatusOr<LaunchRecord> DecodeLaunchRecord(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('\n', 4));
  if (parts.size() > 1 && parts[0] == kFailed) {
    return absl::FailedPreconditionError(absl::StripPrefix(text, absl::StrCat(kFailed, "\n")));
  }
  if (parts.size() == 5 && parts[0] == kOk) {
    LaunchRecord record;
    record.addresses = absl::StrSplit(parts[1], ' ', absl::SkipEmpty());
    record.token = std::string(parts[2]);
    record.job = std::string(parts[3]);
    record.ca_pem = std::string(parts[4]);
    if (!record.addresses.empty() && !record.token.empty() && !record.job.empty()) return record;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("rank 0's record of the job's coordinator, ", text.size(),
                   " bytes, has another format than this version's; do all hosts have the same version of farandole?"));
}

}  // namespace farandole
