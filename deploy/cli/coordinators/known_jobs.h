#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_KNOWN_JOBS_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_KNOWN_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/coordinator_source.h"
#include "server/kept_jobs.h"

namespace farandole {

// A job, and the coordinator that knows it.
struct KnownJob {
  // The coordinator that keeps it; null: it is kept on disk only, and `kept` is all of it.
  const CoordinatorSession* session = nullptr;
  v1::JobSummary summary;
  KeptJob kept;
  // The coordinator's address, or the state directory.
  std::string place;
};

// The coordinators that the command asks, and their jobs.
struct Survey {
  // Not moved any more once `jobs` points to them.
  std::vector<CoordinatorSession> sessions;
  std::vector<KnownJob> jobs;
  std::vector<absl::Status> problems;
  // Sentences of coordinators that work, and cannot do all.
  std::vector<std::string> warnings;
};

// Asks all coordinators that are meant, and reads the state directories without one. The newest job first.
absl::StatusOr<Survey> AskAll(const CoordinatorSource& source, absl::Time now);

// The one job that is meant: of several with its name, the one that has not ended. `tenant` "": of any.
//   NOT_FOUND         there is none; names the nearest
//   INVALID_ARGUMENT  there are several
absl::StatusOr<KnownJob> FindJob(const Survey& survey, const CoordinatorSource& source, const std::string& tenant,
                                 const std::string& name);

// As FindJob, of a coordinator that runs.
//   FAILED_PRECONDITION  the job is kept where none does; `otherwise` ends the sentence, behind "no coordinator runs"
absl::StatusOr<KnownJob> FindServedJob(const Survey& survey, const CoordinatorSource& source, const std::string& tenant,
                                       const std::string& name, absl::string_view otherwise);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_KNOWN_JOBS_H_
