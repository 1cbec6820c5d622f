#include "deploy/cli/coordinators/known_jobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/job_state.h"
#include "base/nearest_name.h"

namespace farandole {
namespace {

void ReadDisk(const std::vector<std::string>& directories, absl::Time now, Survey* survey) {
  for (const std::string& directory : directories) {
    absl::StatusOr<std::vector<KeptJob>> kept = ReadKeptJobs(directory, now);
    if (!kept.ok() && !absl::IsNotFound(kept.status())) survey->problems.push_back(kept.status());
    if (!kept.ok()) continue;
    for (KeptJob& job : *kept) {
      const v1::JobSummary summary = job.job.summary();
      survey->jobs.push_back({nullptr, summary, std::move(job), directory});
    }
  }
}

absl::Status UnknownJob(const Survey& survey, const CoordinatorSource& source, const std::string& tenant,
                        const std::string& job) {
  if (survey.sessions.empty() && survey.jobs.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no job ", job, " in ", source.state_home,
                                            "/farandole, and no coordinator runs there; name its --coordinator"));
  }
  std::vector<std::string> names;
  for (const KnownJob& known : survey.jobs) names.push_back(known.summary.job());
  const std::string nearest = NearestName(job, names);
  const auto address = [](std::string* text, const CoordinatorSession& session) { text->append(session.address()); };
  return absl::NotFoundError(
      absl::StrCat("there is no job ", job, tenant.empty() ? "" : " of tenant ", tenant,
                   survey.sessions.empty() ? "" : " at ", absl::StrJoin(survey.sessions, ", ", address),
                   nearest.empty() || nearest == job ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace

absl::StatusOr<Survey> AskAll(const CoordinatorSource& source, absl::Time now) {
  absl::StatusOr<FoundCoordinators> found = FindCoordinators(source);
  if (!found.ok()) return found.status();
  Survey survey;
  survey.problems = std::move(found->problems);
  for (CoordinatorAddress& where : found->coordinators) {
    absl::StatusOr<CoordinatorSession> session = CoordinatorSession::Open(std::move(where));
    if (!session.ok()) return session.status();
    survey.sessions.push_back(*std::move(session));
  }
  for (const CoordinatorSession& session : survey.sessions) {
    const absl::StatusOr<v1::ListJobsResponse> listed = session.ListJobs();
    if (!listed.ok()) {
      survey.problems.push_back(listed.status());
      continue;
    }
    if (!listed->store_trouble().empty())
      survey.warnings.push_back(absl::StrCat("coordinator ", session.address(), ": ", listed->store_trouble()));
    for (const v1::JobSummary& job : listed->jobs()) survey.jobs.push_back({&session, job, {}, session.address()});
  }
  ReadDisk(found->unattended, now, &survey);
  std::stable_sort(survey.jobs.begin(), survey.jobs.end(), [](const KnownJob& a, const KnownJob& b) {
    return a.summary.created_unix_ms() > b.summary.created_unix_ms();
  });
  return survey;
}

absl::StatusOr<KnownJob> FindJob(const Survey& survey, const CoordinatorSource& source, const std::string& tenant,
                                 const std::string& name) {
  std::vector<KnownJob> found;
  for (const KnownJob& job : survey.jobs) {
    const bool is_meant = tenant.empty() || job.summary.tenant() == tenant;
    if (job.summary.job() == name && is_meant) found.push_back(job);
  }
  // A coordinator lists its newest 1,000 jobs only.
  if (found.empty()) {
    for (const CoordinatorSession& session : survey.sessions) {
      const absl::StatusOr<v1::GetJobResponse> asked = session.GetJob(tenant, name);
      if (asked.ok()) return KnownJob{&session, asked->summary(), {}, session.address()};
    }
    return survey.problems.empty() ? UnknownJob(survey, source, tenant, name) : survey.problems[0];
  }
  std::vector<KnownJob> active;
  std::copy_if(found.begin(), found.end(), std::back_inserter(active),
               [](const KnownJob& job) { return !HasEnded(job.summary.state()); });
  if (found.size() == 1) return found[0];
  if (active.size() == 1) return active[0];
  const auto place = [](std::string* text, const KnownJob& job) {
    absl::StrAppend(text, "tenant ", job.summary.tenant(), " at ", job.place);
  };
  return absl::InvalidArgumentError(absl::StrCat("there are ", found.size(), " jobs ", name, " (",
                                                 absl::StrJoin(found, ", ", place),
                                                 "); name one by --tenant, --coordinator or --state-dir"));
}

absl::StatusOr<KnownJob> FindServedJob(const Survey& survey, const CoordinatorSource& source, const std::string& tenant,
                                       const std::string& name, absl::string_view otherwise) {
  absl::StatusOr<KnownJob> known = FindJob(survey, source, tenant, name);
  if (!known.ok() || known->session != nullptr) return known;
  return absl::FailedPreconditionError(
      absl::StrCat("job ", name, " is kept in ", known->place, ", where no coordinator runs", otherwise));
}

}  // namespace farandole
