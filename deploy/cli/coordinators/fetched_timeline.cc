#include "deploy/cli/coordinators/fetched_timeline.h"

#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/launcher/process/private_file.h"

namespace farandole {
namespace {

absl::StatusOr<JobTimeline> WriteFile(const FetchedTimeline& fetched, const std::string& path) {
  const std::string written = absl::StrCat(path, ".new");
  if (absl::Status made = launcher::WritePrivateFile(written, ""); !made.ok()) return made;
  std::ofstream file(written, std::ios::binary | std::ios::app);
  absl::StatusOr<JobTimeline> timeline = WriteJobTimeline(fetched.about, fetched.parts, file);
  file.close();
  if (timeline.ok() && (!file || rename(written.c_str(), path.c_str()) != 0))
    timeline = absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  if (!timeline.ok()) unlink(written.c_str());
  return timeline;
}

}  // namespace

absl::StatusOr<FetchedTimeline> FetchTimeline(const CoordinatorSession& session, v1::GetTimelineRequest request) {
  FetchedTimeline fetched;
  do {
    absl::StatusOr<v1::GetTimelineResponse> answer = session.GetTimeline(request);
    if (!answer.ok()) return answer.status();
    if (fetched.about.recording() != 0 && fetched.about.recording() != answer->recording())
      return absl::AbortedError(absl::StrCat("timeline ", answer->recording(), " has replaced this one meanwhile"));
    for (v1::TimelinePart& part : *answer->mutable_parts()) fetched.parts.push_back(std::move(part));
    answer->clear_parts();
    fetched.about = *std::move(answer);
    request.set_from(fetched.about.next());
  } while (fetched.about.next() != 0);
  return fetched;
}

std::vector<std::string> DescribeTimeline(const std::string& job, const v1::GetTimelineResponse& about,
                                          const JobTimeline& written) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("timeline ", about.recording(), " of job ", job, about.is_on() ? ", which goes on" : "",
                               ": ", written.events, " events of ", written.ranks.size(),
                               written.ranks.size() == 1 ? " rank on " : " ranks on ", written.hosts.size(),
                               written.hosts.size() == 1 ? " host" : " hosts"));
  if (written.error_ns > 0) {
    lines.push_back(absl::StrFormat("times of different hosts are at most %.3f ms wrong against each other",
                                    static_cast<double>(written.error_ns) / 1e6));
  }
  if (written.left_out > 0)
    lines.push_back(
        absl::StrCat(written.left_out, " events are left out: the clocks of their hosts are not known yet"));
  if (about.dropped() > 0)
    lines.push_back(absl::StrCat(about.dropped(), " events came faster than they could be sent, and are lost"));
  if (about.forgotten() > 0) {
    lines.push_back(
        absl::StrCat(about.forgotten(), " events were given up for later ones: a job keeps 32 MiB of them"));
  }
  return lines;
}

std::string KeptTimelinePath(const std::string& state_directory, const std::string& job) {
  return absl::StrCat(state_directory, "/timeline-", job, ".json");
}

std::vector<std::string> KeepTimelines(const CoordinatorSession& session, const std::string& state_directory) {
  const absl::StatusOr<v1::ListJobsResponse> jobs = session.ListJobs();
  if (!jobs.ok()) return {absl::StrCat("a timeline that was recorded is lost: ", jobs.status().message())};
  std::vector<std::string> lines;
  for (const v1::JobSummary& summary : jobs->jobs()) {
    const std::string& job = summary.job();
    v1::GetTimelineRequest request;
    request.set_tenant(summary.tenant());
    request.set_job(job);
    const absl::StatusOr<FetchedTimeline> fetched = FetchTimeline(session, std::move(request));
    // It has recorded none.
    if (absl::IsNotFound(fetched.status())) continue;
    const std::string path = KeptTimelinePath(state_directory, job);
    const absl::StatusOr<JobTimeline> written = fetched.ok() ? WriteFile(*fetched, path) : fetched.status();
    if (!written.ok()) {
      lines.push_back(absl::StrCat("the timeline of job ", job, " is lost: ", written.status().message()));
      continue;
    }
    std::vector<std::string> told = DescribeTimeline(job, fetched->about, *written);
    told[0] = absl::StrCat(told[0], ", in ", path);
    lines.insert(lines.end(), std::make_move_iterator(told.begin()), std::make_move_iterator(told.end()));
  }
  return lines;
}

}  // namespace farandole
