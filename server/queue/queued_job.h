#ifndef FARANDOLE_SERVER_QUEUE_QUEUED_JOB_H_
#define FARANDOLE_SERVER_QUEUE_QUEUED_JOB_H_

#include <optional>
#include <string>

#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"

namespace farandole {

// The row in ListJobs of a job of which a launch waits at this place.
v1::JobSummary ShowQueued(const v1::QueuedRecord& record, const v1::QueuePlace& place);

// The answer to an event of a job of which a launch waits; nullopt: the event is the job's. An AbortRequested that is
// answered OK is the caller's to carry out. `has_run`: there is an earlier run, which has checkpoints and a history.
std::optional<Reply> AnswerQueued(const v1::QueuedRecord& record, const v1::QueuePlace& place, bool has_run,
                                  const Event& event);

// Writes a line of the coordinator's log about a job, or a tenant.
void LogOf(const std::string& name, const std::string& sentence);
void LogOfTenant(const std::string& tenant, const std::string& sentence);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_QUEUED_JOB_H_
