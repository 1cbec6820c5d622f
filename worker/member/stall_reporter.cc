#include "worker/member/stall_reporter.h"

#include "absl/strings/str_cat.h"

namespace farandole {

bool StallReporter::IsReportDue(int64_t age_ns, int64_t now_ns) {
  if (age_ns <= warning_ns_ || now_ns - last_report_ns_ <= warning_ns_) return false;
  last_report_ns_ = now_ns;
  return true;
}

absl::Status StallReporter::CheckLimit(int64_t age_ns, absl::string_view who) const {
  if (limit_ns_ == 0 || age_ns <= limit_ns_) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "a tensor of ", who, " is stalled for ", age_ns / 1'000'000'000, " s, and ", limit_ns_ / 1'000'000'000,
      " s is the most (FARANDOLE_STALL_LIMIT_MS)", cause_.empty() ? "" : absl::StrCat(": ", cause_)));
}

}  // namespace farandole
