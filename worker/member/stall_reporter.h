#ifndef FARANDOLE_WORKER_MEMBER_STALL_REPORTER_H_
#define FARANDOLE_WORKER_MEMBER_STALL_REPORTER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Decides when a worker reports a tensor that is pending for too long, and when the epoch ends by it. One thread.
class StallReporter {
 public:
  // `limit_ns` 0: a tensor may be pending for any time.
  StallReporter(int64_t warning_ns, int64_t limit_ns) : warning_ns_(warning_ns), limit_ns_(limit_ns) {}

  // Whether to tell the coordinator now. `age_ns`: of the oldest pending tensor.
  bool IsReportDue(int64_t age_ns, int64_t now_ns);
  // The coordinator has found out which ranks the tensor waits for.
  void SetCause(const std::string& sentence) { cause_ = sentence; }
  // DEADLINE_EXCEEDED: the tensor is older than the limit. `who`: this worker.
  absl::Status CheckLimit(int64_t age_ns, absl::string_view who) const;

 private:
  const int64_t warning_ns_;
  const int64_t limit_ns_;
  int64_t last_report_ns_ = 0;
  // The coordinator's last sentence.
  std::string cause_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_STALL_REPORTER_H_
