#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_PENDING_REPORT_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_PENDING_REPORT_H_

#include <cstdint>

#include "farandole/v1/worker.pb.h"
#include "worker/engine/submissions/book/handle_pool.h"

namespace farandole {

// The submissions that wait, the oldest first and at most 64, and how many run. Called under the lock of the pool's
// owner.
v1::StallReport ReportPending(const HandlePool& pool, int64_t now_ns);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_PENDING_REPORT_H_
