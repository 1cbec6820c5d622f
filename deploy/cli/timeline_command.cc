// `farandole timeline`: of a whole job, by its coordinator, or of files that its ranks have written.
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/timeline_files.h"
#include "deploy/launcher/environment/options.h"
#include "web/files/job_timeline.h"

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
  return FindServedJob(survey, options.source, options.tenant, options.job, ": timelines are not kept there");
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

// All parts that there are now; the last answer without its parts is `about`.
absl::Status Fetch(const CoordinatorSession& session, v1::GetTimelineRequest request, v1::GetTimelineResponse* about,
                   std::vector<v1::TimelinePart>* parts) {
  do {
    absl::StatusOr<v1::GetTimelineResponse> answer = session.GetTimeline(request);
    if (!answer.ok()) return answer.status();
    if (about->recording() != 0 && about->recording() != answer->recording())
      return absl::AbortedError(absl::StrCat("timeline ", answer->recording(), " has replaced this one meanwhile"));
    for (v1::TimelinePart& part : *answer->mutable_parts()) parts->push_back(std::move(part));
    answer->clear_parts();
    *about = *std::move(answer);
    request.set_from(about->next());
  } while (about->next() != 0);
  return absl::OkStatus();
}

void Tell(const OfJob& options, const v1::GetTimelineResponse& about, const JobTimeline& written) {
  std::cerr << "timeline " << about.recording() << " of job " << options.job << (about.is_on() ? ", which goes on" : "")
            << ": " << written.events << " events of " << written.ranks.size()
            << (written.ranks.size() == 1 ? " rank on " : " ranks on ") << written.hosts.size()
            << (written.hosts.size() == 1 ? " host" : " hosts") << "\n";
  if (written.error_ns > 0) {
    std::cerr << absl::StrFormat("times of different hosts are at most %.3f ms wrong against each other\n",
                                 static_cast<double>(written.error_ns) / 1e6);
  }
  if (written.left_out > 0)
    std::cerr << written.left_out << " events are left out: the clocks of their hosts are not known yet\n";
  if (about.dropped() > 0)
    std::cerr << about.dropped() << " events came faster than they could be sent, and are lost\n";
  if (about.forgotten() > 0)
    std::cerr << about.forgotten() << " events were given up for later ones: a job keeps 32 MiB of them\n";
}

int Get(const OfJob& options) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known = FindRunning(*survey, options);
  if (!known.ok()) return Report(known.status());
  v1::GetTimelineRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  v1::GetTimelineResponse about;
  std::vector<v1::TimelinePart> parts;
  if (absl::Status fetched = Fetch(*known->session, request, &about, &parts); !fetched.ok()) return Report(fetched);
  std::ofstream file;
  if (!options.output.empty()) file.open(options.output, std::ios::trunc);
  std::ostream& to = options.output.empty() ? std::cout : file;
  const absl::StatusOr<JobTimeline> written = WriteJobTimeline(about, parts, to);
  if (!written.ok()) return Report(written.status());
  to.flush();
  if (!to) return Report(absl::UnavailableError(absl::StrCat("cannot write ", options.output)));
  Tell(options, about, *written);
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
