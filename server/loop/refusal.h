#ifndef FARANDOLE_SERVER_LOOP_REFUSAL_H_
#define FARANDOLE_SERVER_LOOP_REFUSAL_H_

#include <optional>

#include "absl/status/status.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/registry/job_key.h"

namespace farandole {

// The answer to an event that no job can take: a call its Reply, a stream its end; nothing if no caller waits.
std::optional<Output> Refusal(const Event& event, const absl::Status& status);

// The error for callers of a job whose commit was refused or failed.
absl::Status EndOfDroppedJob(const JobKey& key, const absl::Status& failure);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_REFUSAL_H_
