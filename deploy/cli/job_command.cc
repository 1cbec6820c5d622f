#include "deploy/cli/job_command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/job_state.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/checkpoint_wait.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/job_text.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;
constexpr int kWrongCommandLine = 2;

int Report(const absl::Status& status, std::ostream& err, absl::string_view command = "job") {
  err << "farandole " << command << ": " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? kWrongCommandLine : kFailed;
}

// All about it.
absl::StatusOr<KeptJob> Describe(const KnownJob& known) {
  if (known.session == nullptr) return known.kept;
  const std::string& tenant = known.summary.tenant();
  absl::StatusOr<v1::GetJobResponse> job = known.session->GetJob(tenant, known.summary.job());
  if (!job.ok()) return job.status();
  absl::StatusOr<v1::ListCheckpointsResponse> checkpoints = known.session->ListCheckpoints(tenant, known.summary.job());
  if (!checkpoints.ok()) return checkpoints.status();
  return KeptJob{*std::move(job), *std::move(checkpoints)};
}

// FindJob, of those that have not ended.
absl::StatusOr<KnownJob> FindActiveJob(const absl::StatusOr<Survey>& survey, const JobCommandOptions& options) {
  if (!survey.ok()) return survey.status();
  absl::StatusOr<KnownJob> known = FindJob(*survey, options.source, options.tenant, options.job);
  if (!known.ok() || !HasEnded(known->summary.state())) return known;
  return absl::FailedPreconditionError(absl::StrCat("job ", options.job, " has ended already (",
                                                    StateName(known->summary.state()), ": ", known->summary.reason(),
                                                    ")"));
}

const char* PlaceKey(const KnownJob& job) { return job.session == nullptr ? "state_dir" : "coordinator"; }

int ReportProblems(const Survey& survey, std::ostream& err) {
  for (const absl::Status& problem : survey.problems) Report(problem, err);
  return survey.problems.empty() ? 0 : kFailed;
}

// Asks the person at the terminal.
absl::Status AskReason(std::string* reason) {
  if (reason->empty() && isatty(STDIN_FILENO) != 0) {
    std::cerr << "Why? The reason reaches every worker and stays in the job's history: " << std::flush;
    std::getline(std::cin, *reason);
  }
  *reason = std::string(absl::StripAsciiWhitespace(*reason));
  return reason->empty()
             ? absl::InvalidArgumentError("abort needs a --reason: one sentence, which reaches every worker")
             : absl::OkStatus();
}

void AddOptions(CLI::App* command, JobCommandOptions* options) {
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant,
                      "Only jobs of this tenant (needs a role of the cluster for another's)");
}

void AddName(CLI::App* command, JobCommandOptions* options) {
  command->add_option("NAME", options->job, "The job's name")->required();
}

}  // namespace

int ListJobs(const JobCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, now);
  if (!survey.ok()) return Report(survey.status(), err);
  std::vector<v1::JobSummary> jobs;
  Json array = Json::array();
  for (const KnownJob& job : survey->jobs) {
    if (!options.tenant.empty() && job.summary.tenant() != options.tenant) continue;
    jobs.push_back(job.summary);
    array.push_back(SummaryJson(job.summary));
    array.back()[PlaceKey(job)] = job.place;
  }
  if (options.json) {
    out << ShowJson(array, 2) << "\n";
  } else if (!jobs.empty()) {
    PrintJobs(jobs, now, out);
  } else if (!survey->problems.empty()) {
    // Whether there are jobs is not known.
  } else if (survey->sessions.empty()) {
    out << "no jobs in " << options.source.state_home << "/farandole, and no coordinator runs there\n";
  } else {
    out << "no jobs\n";
  }
  for (const std::string& warning : survey->warnings) err << "farandole job: " << warning << "\n";
  return ReportProblems(*survey, err);
}

int ShowJob(const JobCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, now);
  if (!survey.ok()) return Report(survey.status(), err);
  const absl::StatusOr<KnownJob> known = FindJob(*survey, options.source, options.tenant, options.job);
  if (!known.ok()) return Report(known.status(), err);
  const absl::StatusOr<KeptJob> found = Describe(*known);
  if (!found.ok()) return Report(found.status(), err);
  if (!options.json) {
    const char* keeper = known->session == nullptr ? "kept in " : "at coordinator ";
    PrintJob(found->job, found->checkpoints, absl::StrCat(keeper, known->place), now, out);
    return 0;
  }
  Json json = JobJson(found->job);
  json[PlaceKey(*known)] = known->place;
  json["checkpoints"] = Json::array();
  for (const v1::Checkpoint& checkpoint : found->checkpoints.checkpoints())
    json["checkpoints"].push_back(CheckpointJson(checkpoint));
  out << ShowJson(json, 2) << "\n";
  return 0;
}

int AbortJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  const absl::StatusOr<KnownJob> known = FindActiveJob(survey, options);
  if (!known.ok()) return Report(known.status(), err);
  const absl::Status status =
      known->session->AbortJob(known->summary.tenant(), options.job, options.reason, v1::AbortJobRequest::OPERATOR);
  if (!status.ok()) return Report(status, err);
  out << "job " << options.job << " was ended: " << options.reason << "\n";
  return 0;
}

int DeleteJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status(), err);
  const absl::StatusOr<KnownJob> known =
      FindServedJob(*survey, options.source, options.tenant, options.job, ": remove that directory");
  if (!known.ok()) return Report(known.status(), err);
  const absl::Status status = known->session->DeleteJob(known->summary.tenant(), options.job);
  if (!status.ok()) return Report(status, err);
  out << "job " << options.job << " was deleted; the files of its checkpoints stay\n";
  return 0;
}

int RequestCheckpoint(const JobCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  const absl::StatusOr<KnownJob> known = FindActiveJob(survey, options);
  if (!known.ok()) return Report(known.status(), err);
  if (known->session == nullptr)
    return Report(absl::FailedPreconditionError(absl::StrCat("no coordinator runs for job ", options.job)), err);
  const absl::StatusOr<v1::WantedCheckpoint> wanted =
      known->session->RequestCheckpoint(known->summary.tenant(), options.job);
  if (!wanted.ok()) return Report(wanted.status(), err);
  if (options.waits) {
    const absl::StatusOr<v1::Checkpoint> written =
        AwaitCheckpoint(*known, *wanted, options.source, absl::Seconds(options.timeout_seconds), err);
    if (!written.ok()) return Report(written.status(), err);
    out << "job " << options.job << ": " << WithoutControls(written->name()) << " of step " << written->step()
        << " is written: " << WithoutControls(written->path()) << "\n";
    return 0;
  }
  out << "job " << options.job << ": "
      << (wanted->times() > 1
              ? absl::StrCat("a checkpoint was asked for already, by ", WithoutControls(wanted->asker()))
              : "its program is asked for a checkpoint")
      << "; it is told when it calls checkpoint_requested()\n";
  return 0;
}

int DrainJob(const JobCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  const absl::StatusOr<KnownJob> known = FindActiveJob(survey, options);
  if (!known.ok()) return Report(known.status(), err, "drain");
  v1::DrainWorkersRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  request.set_reason(options.reason);
  if (options.rank.has_value()) {
    request.set_rank(*options.rank);
  } else {
    request.set_hostname(options.host);
  }
  const absl::StatusOr<v1::DrainWorkersResponse> drained = known->session->DrainWorkers(request);
  if (!drained.ok()) return Report(drained.status(), err, "drain");
  out << "job " << options.job << ": " << (drained->ranks_size() == 1 ? "rank " : "ranks ")
      << absl::StrJoin(drained->ranks(), ", ") << (drained->ranks_size() == 1 ? " leaves" : " leave")
      << " at the program's next commit\n";
  return 0;
}

void AddDrainCommand(CLI::App* app, int* exit_code) {
  CLI::App* drain = app->add_subcommand("drain", "Have workers of an elastic job leave; the others go on without them");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<JobCommandOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  AddName(drain, options.get());
  AddOptions(drain, options.get());
  CLI::Option_group* whom = drain->add_option_group("whom", "One of these");
  whom->add_option("--rank", options->rank, "The worker of this rank");
  whom->add_option("--host", options->host, "All workers of this host, by its name in `farandole job show`");
  whom->require_option(1);
  drain->add_option("--reason", options->reason, "Why: one sentence, which reaches every worker");
  drain->callback([options, exit_code] { *exit_code = DrainJob(*options, std::cout, std::cerr); });
}

void AddJobCommand(CLI::App* app, int* exit_code) {
  CLI::App* job = app->add_subcommand("job", "List, show, abort and delete jobs, and ask for checkpoints");
  job->require_subcommand(1);
  // shared: by the callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<JobCommandOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;

  CLI::App* list = job->add_subcommand("list", "Show all jobs, the newest first");
  AddOptions(list, options.get());
  list->add_flag("--json", options->json, "Print JSON instead of text");
  list->callback([options, exit_code] { *exit_code = ListJobs(*options, absl::Now(), std::cout, std::cerr); });

  CLI::App* show = job->add_subcommand("show", "Show one job: state, ranks, last stall, checkpoints, history");
  AddName(show, options.get());
  AddOptions(show, options.get());
  show->add_flag("--json", options->json, "Print JSON instead of text");
  show->callback([options, exit_code] { *exit_code = ShowJob(*options, absl::Now(), std::cout, std::cerr); });

  CLI::App* abort = job->add_subcommand("abort", "End a job; its workers are told the reason");
  AddName(abort, options.get());
  AddOptions(abort, options.get());
  abort->add_option("--reason", options->reason, "Why: one sentence; asked for at a terminal where it is not given");
  abort->callback([options, exit_code] {
    const absl::Status asked = AskReason(&options->reason);
    *exit_code = asked.ok() ? AbortJob(*options, std::cout, std::cerr) : Report(asked, std::cerr);
  });
  CLI::App* remove = job->add_subcommand("delete", "Delete a job that has ended; files of its checkpoints stay");
  AddName(remove, options.get());
  AddOptions(remove, options.get());
  remove->callback([options, exit_code] { *exit_code = DeleteJob(*options, std::cout, std::cerr); });

  CLI::App* checkpoint = job->add_subcommand("checkpoint", "Ask a job's program to write a checkpoint soon");
  AddName(checkpoint, options.get());
  AddOptions(checkpoint, options.get());
  checkpoint->add_flag("--wait", options->waits, "Wait for it, and print its step and path");
  checkpoint->add_option("--timeout", options->timeout_seconds, "With --wait: for how long at most, in seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  checkpoint->callback([options, exit_code] { *exit_code = RequestCheckpoint(*options, std::cout, std::cerr); });
}

}  // namespace farandole
