#ifndef FARANDOLE_DEPLOY_CLI_JOB_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_JOB_COMMAND_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_source.h"

namespace farandole {

// The options of `farandole job list|show|abort|delete|checkpoint` and of `farandole drain`.
struct JobCommandOptions {
  CoordinatorSource source;
  std::string job;
  // "": whichever has a job of this name.
  std::string tenant;
  // Why a job is aborted, or workers are drained: one sentence of at most 1,024 bytes.
  std::string reason;
  // The workers to drain: a rank, or all workers of a host (its name as `job show` has it). One of the two.
  std::optional<uint32_t> rank;
  std::string host;
  bool json = false;
  // Of a request for a checkpoint: whether to wait for it, and for how long at most.
  bool waits = false;
  double timeout_seconds = 600;
};

// All write their result to `out` and their errors, a sentence per line, to `err`; they return the exit code: 0 on
// success, 1 if a coordinator cannot be asked or does not have the job (the sentence suggests the nearest name), 2 if
// the options contradict each other, or more than one job may be meant.

// A table of the jobs that the coordinators keep, and of those in state directories where none works, the newest first
// (or with `json` an array of objects).
int ListJobs(const JobCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);
// One job: state, ranks, checkpoints, history (or with `json` an object).
int ShowJob(const JobCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);
// Ends a job that forms or runs; its workers get the reason. A job that has ended already is left as it is, which is
// said, with exit code 1.
int AbortJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err);
// Deletes a job that has ended from its coordinator, history and catalogue included; files of checkpoints stay.
int DeleteJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err);
// Asks the job's program for a checkpoint. With `waits`, prints the committed one's step and path; exit code 1, with
// the reason, if there is none, as the job has ended, the program could not write it, or did not do so in time.
int RequestCheckpoint(const JobCommandOptions& options, std::ostream& out, std::ostream& err);
// Has workers of an elastic job leave at the program's next commit; which, is printed.
int DrainJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_JOB_COMMAND_H_
