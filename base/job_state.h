#ifndef FARANDOLE_BASE_JOB_STATE_H_
#define FARANDOLE_BASE_JOB_STATE_H_

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// "forming", "running", "finished", "failed", "queued"; "unknown" for a number that has no name.
const char* StateName(v1::JobState state);

// The job forms or runs, and counts towards its tenant's quota.
inline bool IsActive(v1::JobState state) { return state == v1::JOB_STATE_FORMING || state == v1::JOB_STATE_RUNNING; }

// The job is over: it has run, and nothing of it waits.
inline bool HasEnded(v1::JobState state) { return state == v1::JOB_STATE_FINISHED || state == v1::JOB_STATE_FAILED; }

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_STATE_H_
