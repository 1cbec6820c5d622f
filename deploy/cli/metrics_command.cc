// `farandole metrics`: what the programs of a job have logged.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "checkpoint/durable_file.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/text/event_file.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "web/logged_text.h"

namespace farandole {
namespace {

struct MetricsOptions {
  CoordinatorSource source;
  std::string job;
  std::string tenant;
  std::vector<std::string> names;
  std::string tensorboard;
  bool csv = false;
  bool json = false;
};

int Report(const absl::Status& status) {
  std::cerr << "farandole metrics: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

absl::Status WriteEventFiles(const MetricsOptions& options, const v1::ListLoggedResponse& logged) {
  for (const auto& [run, bytes] : EventFiles(logged)) {
    const std::filesystem::path folder =
        std::filesystem::path(options.tensorboard) / (run.empty() ? options.job : absl::StrCat(options.job, ".", run));
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure)
      return absl::FailedPreconditionError(absl::StrCat(folder.string(), " cannot be made: ", failure.message()));
    const std::string path = folder / "events.out.tfevents.0.farandole";
    if (absl::Status written = WriteFileAtomically(path, path + ".tmp", bytes); !written.ok()) return written;
  }
  return absl::OkStatus();
}

void ShowTable(const v1::ListLoggedResponse& logged) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::LoggedSeries& series : logged.series()) {
    const int last = series.first_step_size() - 1;
    if (last < 0) continue;
    rows.push_back({series.has_rank() ? absl::StrCat(series.rank()) : "average", absl::StrCat(series.first_step(0)),
                    absl::StrCat(series.last_step(last)), absl::StrCat(last + 1), absl::StrCat(series.mean(last)),
                    ShowTime(absl::FromUnixMillis(series.at_unix_ms(last))), series.name()});
  }
  PrintTable({{"RANK", true},
              {"FROM STEP", true},
              {"TO STEP", true},
              {"POINTS", true},
              {"LATEST", true},
              {"LOGGED"},
              {"NAME"}},
             rows, std::cout);
}

void ShowLosses(const v1::ListLoggedResponse& logged) {
  if (logged.dropped() > 0)
    std::cerr << "farandole metrics: the programs logged faster than could be sent: " << logged.dropped()
              << " values were lost\n";
  if (logged.refused() > 0)
    std::cerr << "farandole metrics: " << WithoutControls(logged.bound()) << "; " << logged.refused()
              << " values were not kept\n";
}

int ShowMetrics(const MetricsOptions& options) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known =
      FindServedJob(*survey, options.source, options.tenant, options.job,
                    "; start one there (farandole serve --state-dir) to read what the job has logged");
  if (!known.ok()) return Report(known.status());
  v1::ListLoggedRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  for (const std::string& name : options.names) request.add_names(name);
  absl::StatusOr<v1::ListLoggedResponse> logged = known->session->ListLogged(request);
  if (!logged.ok()) return Report(logged.status());
  if (!options.tensorboard.empty()) {
    if (absl::Status written = WriteEventFiles(options, *logged); !written.ok()) return Report(written);
  }
  ShowLosses(*logged);
  if (!options.json)
    for (v1::LoggedSeries& series : *logged->mutable_series()) series.set_name(WithoutControls(series.name()));
  if (options.csv) {
    std::cout << LoggedCsv(*logged);
  } else if (options.json) {
    std::cout << LoggedJson(*logged);
  } else if (logged->series().empty()) {
    std::cout << "job " << options.job << " has logged nothing" << (options.names.empty() ? "" : " by these names")
              << "; a program logs by farandole.log({\"loss\": loss}, step=step)\n";
  } else {
    ShowTable(*logged);
  }
  return 0;
}

}  // namespace

void AddMetricsCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand("metrics", "Show what the programs of a job have logged (farandole.log)");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<MetricsOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  command->add_option("NAME", options->job, "The job's name")->required();
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant, "Only a job of this tenant (another's needs a role of the cluster)");
  command->add_option("--only", options->names, "Only what was logged by this name (again for more)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  CLI::Option* csv = command->add_flag("--csv", options->csv, "Print all points as CSV");
  command->add_flag("--json", options->json, "Print all points as JSON")->excludes(csv);
  command->add_option("--tensorboard", options->tensorboard, "Write event files for TensorBoard below this folder, too")
      ->type_name("DIR");
  command->callback([options, exit_code] { *exit_code = ShowMetrics(*options); });
}

}  // namespace farandole
