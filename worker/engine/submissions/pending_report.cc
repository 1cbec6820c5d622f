#include "worker/engine/submissions/pending_report.h"

#include <algorithm>
#include <vector>

namespace farandole {
namespace {

constexpr size_t kMostReported = 64;

}  // namespace

v1::StallReport ReportPending(const HandlePool& pool, int64_t now_ns) {
  v1::StallReport report;
  // Of tens of thousands that may be pending, only the oldest are copied.
  std::vector<const Submission*> pending;
  uint32_t running = 0;
  for (const Submission& submission : pool.submissions()) {
    if (!submission.in_use || submission.complete.load()) continue;
    if (submission.running) {
      ++running;
    } else {
      pending.push_back(&submission);
    }
  }
  report.set_running(running);
  const auto reported = pending.begin() + static_cast<ptrdiff_t>(std::min(pending.size(), kMostReported));
  std::partial_sort(pending.begin(), reported, pending.end(),
                    [](const Submission* a, const Submission* b) { return a->submitted_ns < b->submitted_ns; });
  for (auto one = pending.begin(); one != reported; ++one) {
    v1::PendingTensor* const row = report.add_pending();
    row->set_name((*one)->name);
    row->set_group((*one)->group);
    row->set_op(static_cast<v1::OpType>((*one)->op));
    row->set_age_ms(static_cast<uint64_t>((now_ns - (*one)->submitted_ns) / 1'000'000));
  }
  return report;
}

}  // namespace farandole
