#ifndef FARANDOLE_BASE_JOB_STATE_H_
#define FARANDOLE_BASE_JOB_STATE_H_

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// "forming", "running", "finished", "failed"; "unknown" for a number that has no name.
const char* StateName(v1::JobState state);

// The job forms or runs, and counts towards its tenant's quota.
inline bool IsActive(v1::JobState state) { return state == v1::JOB_STATE_FORMING || state == v1::JOB_STATE_RUNNING; }

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_STATE_H_
