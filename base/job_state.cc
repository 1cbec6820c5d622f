#include "base/job_state.h"

namespace farandole {

const char* StateName(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_FORMING:
      return "forming";
    case v1::JOB_STATE_RUNNING:
      return "running";
    case v1::JOB_STATE_FINISHED:
      return "finished";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_QUEUED:
      return "queued";
    default:
      return "unknown";
  }
}

}  // namespace farandole
