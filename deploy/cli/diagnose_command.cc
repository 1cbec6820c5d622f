// `farandole diagnose`: what the ranks of a job do now, or did last.
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/private_file.h"
#include "web/files/evidence_archive.h"
#include "web/files/evidence_text.h"

namespace farandole {
namespace {

struct DiagnoseOptions {
  CoordinatorSource source;
  std::string job;
  std::string tenant;
  std::string archive;
  bool stacks = true;
  bool last_stall = false;
  bool json = false;
};

int Report(const absl::Status& status) {
  std::cerr << "farandole diagnose: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

int Diagnose(const DiagnoseOptions& options) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known = FindServedJob(*survey, options.source, options.tenant, options.job,
                                                       ": what its ranks did last is not kept there");
  if (!known.ok()) return Report(known.status());
  v1::DiagnoseRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  request.set_stacks(options.stacks);
  request.set_last_stall(options.last_stall);
  const absl::StatusOr<v1::DiagnoseResponse> answer = known->session->Diagnose(request);
  if (!answer.ok()) return Report(answer.status());
  if (!options.archive.empty()) {
    const absl::StatusOr<v1::GetJobResponse> job = known->session->GetJob(known->summary.tenant(), options.job);
    if (!job.ok()) return Report(job.status());
    const absl::StatusOr<std::string> packed = PackEvidence(*job, *answer, "`farandole diagnose`", absl::Now());
    if (!packed.ok()) return Report(packed.status());
    if (absl::Status written = launcher::WriteNewFile(options.archive, *packed); !written.ok()) return Report(written);
  }
  if (options.json) {
    std::cout << EvidenceJson(*answer);
    return 0;
  }
  std::cout << ShowEvidence(*answer);
  if (!options.archive.empty())
    std::cout << "\nall of it is in " << options.archive << ", with no tokens; look at it before you give it away\n";
  return 0;
}

}  // namespace

void AddDiagnoseCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "diagnose", "Ask a job's workers what they do: who waits for whom, and the stacks of their programs");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<DiagnoseOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  command->add_option("NAME", options->job, "The job's name")->required();
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant,
                      "Only a job of this tenant (needs a role of the cluster for another's)");
  command->add_option("--archive", options->archive, "Write everything for a bug report to this new file (.tar.gz)");
  command->add_flag("!--no-stacks", options->stacks, "Leave out the stacks of the programs");
  command->add_flag("--last-stall", options->last_stall,
                    "Show what the workers said when the job stalled last, by the coordinator's own question");
  command->add_flag("--json", options->json, "Print JSON instead of text");
  command->callback([options, exit_code] { *exit_code = Diagnose(*options); });
}

}  // namespace farandole
