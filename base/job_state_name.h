#ifndef FARANDOLE_BASE_JOB_STATE_NAME_H_
#define FARANDOLE_BASE_JOB_STATE_NAME_H_

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// "forming", "running", "finished", "failed"; "unknown" for a number that has no name.
const char* StateName(v1::JobState state);

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_STATE_NAME_H_
