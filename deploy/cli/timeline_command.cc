// `farandole timeline`: of a whole job, by its coordinator, or of files that its ranks have written.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/fetched_timeline.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/timeline_files.h"
#include "deploy/launcher/environment/options.h"

namespace farandole {
namespace {

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
};

struct OfJob {
  CoordinatorSource source;
  std::string job;
  std::string tenant;
  std::string output;
  bool marks_cycles = false;
};

int Report(const absl::Status& status) {
  std::cerr << "farandole timeline: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

// The job, of a coordinator that runs.
absl::StatusOr<KnownJob> FindRunning(const Survey& survey, const OfJob& options) {
  return FindServedJob(survey, options.source, options.tenant, options.job, ": nothing can be recorded there");
}

int Record(const OfJob& options, bool is_on) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known = FindRunning(*survey, options);
  if (!known.ok()) return Report(known.status());
  v1::RecordTimelineRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  request.set_is_on(is_on);
  request.set_marks_cycles(options.marks_cycles);
  const absl::StatusOr<v1::RecordTimelineResponse> answer = known->session->RecordTimeline(std::move(request));
  if (!answer.ok()) return Report(answer.status());
  std::cout << answer->sentence() << "; farandole timeline get " << options.job << " -o FILE fetches it\n";
  return 0;
}

// A run of this machine that is over has left its timeline in a file.
int GetKept(const OfJob& options, const KnownJob& known) {
  const std::string path = KeptTimelinePath(known.place, options.job);
  std::ifstream from(path, std::ios::binary);
  if (!from) {
    return Report(absl::NotFoundError(
        absl::StrCat("job ", options.job, " has ended, and has left no timeline in ", known.place)));
  }
  std::ofstream file;
  std::error_code unknown;
  // It would be emptied before it is read.
  const bool is_itself = std::filesystem::equivalent(path, options.output, unknown);
  if (!options.output.empty() && !is_itself) file.open(options.output, std::ios::trunc);
  std::ostream& to = options.output.empty() ? std::cout : file;
  if (!is_itself) to << from.rdbuf() << std::flush;
  if (!to) return Report(absl::UnavailableError(absl::StrCat("cannot write ", options.output)));
  std::cerr << "the timeline of job " << options.job << ", which has ended, from " << path << "\n";
  return 0;
}

int Get(const OfJob& options) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known = FindJob(*survey, options.source, options.tenant, options.job);
  if (!known.ok()) return Report(known.status());
  if (known->session == nullptr) return GetKept(options, *known);
  v1::GetTimelineRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  const absl::StatusOr<FetchedTimeline> fetched = FetchTimeline(*known->session, std::move(request));
  if (!fetched.ok()) return Report(fetched.status());
  std::ofstream file;
  if (!options.output.empty()) file.open(options.output, std::ios::trunc);
  std::ostream& to = options.output.empty() ? std::cout : file;
  const absl::StatusOr<JobTimeline> written = WriteJobTimeline(fetched->about, fetched->parts, to);
  if (!written.ok()) return Report(written.status());
  to.flush();
  if (!to) return Report(absl::UnavailableError(absl::StrCat("cannot write ", options.output)));
  for (const std::string& line : DescribeTimeline(options.job, fetched->about, *written)) std::cerr << line << "\n";
  return 0;
}

// shared: by callbacks, of which CLI11 keeps copies.
std::shared_ptr<OfJob> AddJobOptions(CLI::App* command) {
  auto options = std::make_shared<OfJob>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  command->add_option("NAME", options->job, "The job's name")->required();
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant, "Only a job of this tenant (another's needs a role of the cluster)");
  return options;
}

void AddMerge(CLI::App* timeline, int* exit_code) {
  CLI::App* merge = timeline->add_subcommand("merge", "Put the timelines of several ranks into one file");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<MergeOptions>();
  merge->add_option("files", options->files, "What the ranks have written")->type_name("FILE...")->required();
  merge->add_option("-o,--output", options->output, "Where to; otherwise standard output")->type_name("FILE");
  merge->callback([options, exit_code] {
    const absl::Status merged = MergeTimelines(options->files, options->output);
    if (!merged.ok()) std::cerr << "farandole timeline: " << merged.message() << "\n";
    *exit_code = merged.ok() ? 0 : absl::IsUnavailable(merged) ? 1 : 2;
  });
}

}  // namespace

void AddTimelineCommand(CLI::App* app, int* exit_code) {
  CLI::App* timeline = app->add_subcommand("timeline", "Timelines of what tensors waited for");
  timeline->require_subcommand(1);
  CLI::App* start = timeline->add_subcommand("start", "Have all workers of a running job record a timeline");
  const std::shared_ptr<OfJob> of_start = AddJobOptions(start);
  start->add_flag("--mark-cycles", of_start->marks_cycles, "Also mark the beginning of each batch");
  start->callback([of_start, exit_code] { *exit_code = Record(*of_start, true); });
  CLI::App* stop = timeline->add_subcommand("stop", "End the recording");
  const std::shared_ptr<OfJob> of_stop = AddJobOptions(stop);
  stop->callback([of_stop, exit_code] { *exit_code = Record(*of_stop, false); });
  CLI::App* get = timeline->add_subcommand("get", "Write what was recorded so far, for Perfetto and chrome://tracing");
  const std::shared_ptr<OfJob> of_get = AddJobOptions(get);
  get->add_option("-o,--output", of_get->output, "Where to; otherwise standard output")->type_name("FILE");
  get->callback([of_get, exit_code] { *exit_code = Get(*of_get); });
  AddMerge(timeline, exit_code);
}

}  // namespace farandole
