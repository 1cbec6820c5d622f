#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_FETCHED_TIMELINE_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_FETCHED_TIMELINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "web/files/job_timeline.h"

namespace farandole {

// A job's timeline, as far as its coordinator has it.
struct FetchedTimeline {
  // The last answer, without its parts.
  v1::GetTimelineResponse about;
  std::vector<v1::TimelinePart> parts;
};

// All parts that there are now. Errors as those of MonitorService.GetTimeline, and
//   ABORTED  another timeline has replaced this one meanwhile
absl::StatusOr<FetchedTimeline> FetchTimeline(const CoordinatorSession& session, v1::GetTimelineRequest request);

// For people: what was written, and a line for each thing that is missing in it.
std::vector<std::string> DescribeTimeline(const std::string& job, const v1::GetTimelineResponse& about,
                                          const JobTimeline& written);

// Where `farandole run` keeps the timeline of a job of its own, in the job's state directory, when its coordinator has
// ended. A job that some workers of the launch form has a file of its own.
std::string KeptTimelinePath(const std::string& state_directory, const std::string& job);

// Writes the timelines that the jobs of this coordinator have recorded, in place of earlier ones: readable by this user
// alone, and in one step. Sentences for people: where each is, or why it is lost; none where none was recorded.
std::vector<std::string> KeepTimelines(const CoordinatorSession& session, const std::string& state_directory);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_FETCHED_TIMELINE_H_
