#include "deploy/cli/checkpoint_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/text/plain_text.h"
#include "checkpoint/manifest.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBad = 1;
constexpr int kWrongCommandLine = 2;
constexpr size_t kMostPathBytes = 8192;

int Report(const absl::Status& status, std::ostream& err) {
  err << "farandole checkpoint: " << WithoutControls(std::string(status.message())) << "\n";
  return absl::IsInvalidArgument(status) ? kWrongCommandLine : kBad;
}

// The state as far as it shows without reading the file.
std::string StateOf(const v1::Checkpoint& checkpoint) {
  struct stat found = {};
  if (stat(checkpoint.path().c_str(), &found) != 0)
    return errno == ENOENT || errno == ENOTDIR ? "missing" : "unreadable";
  return static_cast<uint64_t>(found.st_size) == checkpoint.size_bytes() ? "present" : "wrong size";
}

Json Fields(const CatalogueRow& row) {
  Json json = {{"job", row.job}};
  json.update(CheckpointJson(row.checkpoint));
  return json;
}

// The result of verifying one file; `status` is OK, DATA_LOSS, NOT_FOUND or the error of reading the file.
struct Verdict {
  std::string path;
  absl::Status status;

  std::string Word() const {
    if (status.ok()) return "OK";
    if (absl::IsDataLoss(status)) return "CORRUPT";
    return absl::IsNotFound(status) ? "MISSING" : "UNREADABLE";
  }
};

// A named file is verified against the manifest beside it.
Verdict VerifyNamed(const std::string& file) {
  std::error_code error;
  const bool is_manifest = absl::EndsWith(file, ".json") && !std::filesystem::exists(ManifestPath(file), error);
  const absl::StatusOr<Manifest> manifest = ReadManifest(is_manifest ? file : ManifestPath(file));
  if (!manifest.ok()) return {file, manifest.status()};
  return {manifest->checkpoint.path(), VerifyFile(manifest->checkpoint)};
}

int PrintVerdicts(const std::vector<Verdict>& verdicts, bool json, std::ostream& out) {
  const auto is_bad = [](const Verdict& verdict) { return !verdict.status.ok(); };
  const auto bad = std::count_if(verdicts.begin(), verdicts.end(), is_bad);
  if (json) {
    Json array = Json::array();
    for (const Verdict& verdict : verdicts) {
      array.push_back(
          {{"path", verdict.path}, {"state", verdict.Word()}, {"message", std::string(verdict.status.message())}});
    }
    out << ShowJson(array, 2) << "\n";
  } else {
    for (const Verdict& verdict : verdicts) {
      const std::string said = verdict.status.ok() ? verdict.path : std::string(verdict.status.message());
      out << absl::StreamFormat("%-10s  %s\n", verdict.Word(), WithoutControls(said));
    }
    out << verdicts.size() - bad << " good, " << bad << " bad\n";
  }
  return bad == 0 ? 0 : kBad;
}

int ReportProblems(const Catalogue& catalogue, std::ostream& err) {
  for (const absl::Status& problem : catalogue.problems) Report(problem, err);
  return catalogue.problems.empty() ? 0 : kBad;
}

void AddSourceOptions(CLI::App* command, CheckpointOptions* options) {
  command->add_option("--job", options->source.job, "Only this job; by default all that are found");
  command
      ->add_option("--state-dir", options->source.state_dir,
                   "A coordinator's state directory; by default those of `farandole run`, "
                   "$XDG_STATE_HOME/farandole/jobs/* (~/.local/state/...), and of `farandole serve`, .../serve")
      ->type_name("DIR");
  command->add_option("--coordinator", options->source.coordinator, "Ask a running coordinator instead")
      ->type_name("HOST:PORT");
  command->add_option("--token-file", options->source.token_file, "The file with a token that the coordinator knows")
      ->type_name("FILE");
  command
      ->add_option("--ca", options->source.ca_file,
                   "CA certificates (PEM) that signed the coordinator's certificate; without it there is no TLS")
      ->type_name("FILE");
  command
      ->add_option("--cert", options->source.cert_file,
                   "Certificate (PEM) that stands for a token, where the coordinator takes certificates; with --key")
      ->type_name("FILE");
  command->add_option("--key", options->source.key_file, "That certificate's key (PEM)")->type_name("FILE");
  command->add_flag("--json", options->json, "Print JSON instead of text");
}

}  // namespace

int ListCheckpoints(const CheckpointOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Catalogue> catalogue = ReadCatalogue(options.source);
  if (!catalogue.ok()) return Report(catalogue.status(), err);
  if (options.json) {
    Json array = Json::array();
    for (const CatalogueRow& row : catalogue->rows) {
      Json fields = Fields(row);
      fields["state"] = StateOf(row.checkpoint);
      array.push_back(std::move(fields));
    }
    out << ShowJson(array, 2) << "\n";
  } else if (catalogue->rows.empty()) {
    out << "no checkpoints\n";
  } else {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [job, checkpoint] : catalogue->rows) {
      rows.push_back({job, checkpoint.name(), absl::StrCat(checkpoint.step()), absl::StrCat(checkpoint.token()),
                      ShowSize(checkpoint.size_bytes()),
                      ShowAge(now - absl::FromUnixMillis(checkpoint.committed_unix_ms())), StateOf(checkpoint),
                      checkpoint.path()});
    }
    PrintTable({{"JOB"}, {"NAME"}, {"STEP", true}, {"TOKEN", true}, {"SIZE", true}, {"AGE", true}, {"STATE"}, {"PATH"}},
               rows, out);
  }
  return ReportProblems(*catalogue, err);
}

int VerifyCheckpoints(const CheckpointOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<Verdict> verdicts;
  if (!options.files.empty()) {
    const CatalogueSource& source = options.source;
    if (!source.job.empty() || !source.state_dir.empty() || !source.coordinator.empty()) {
      return Report(
          absl::InvalidArgumentError("files and a catalogue (--job, --state-dir, --coordinator) exclude each other"),
          err);
    }
    for (const std::string& file : options.files) verdicts.push_back(VerifyNamed(file));
    return PrintVerdicts(verdicts, options.json, out);
  }
  const absl::StatusOr<Catalogue> catalogue = ReadCatalogue(options.source);
  if (!catalogue.ok()) return Report(catalogue.status(), err);
  // A nightly run must report this.
  if (catalogue->rows.empty() && catalogue->problems.empty())
    return Report(absl::NotFoundError("no checkpoint is known, so that none was verified"), err);
  for (const CatalogueRow& row : catalogue->rows)
    verdicts.push_back({row.checkpoint.path(), VerifyFile(row.checkpoint)});
  const int bad = PrintVerdicts(verdicts, options.json, out);
  return std::max(bad, ReportProblems(*catalogue, err));
}

int DeleteCheckpoint(const DeleteCheckpointOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status(), err);
  const absl::StatusOr<KnownJob> known =
      FindServedJob(*survey, options.source, options.tenant, options.job,
                    ", and only a coordinator may change the catalogue: start one there (farandole serve --state-dir)");
  if (!known.ok()) return Report(known.status(), err);
  v1::DeleteCheckpointRequest request;
  request.set_tenant(known->summary.tenant());
  request.set_job(options.job);
  request.set_name(options.name);
  request.set_step(options.step);
  const absl::StatusOr<v1::DeleteCheckpointResponse> deleted = known->session->DeleteCheckpoint(request);
  if (!deleted.ok()) return Report(deleted.status(), err);
  const v1::Checkpoint& checkpoint = deleted->checkpoint();
  if (options.json) {
    out << ShowJson(Fields({options.job, checkpoint}), 2) << "\n";
    return 0;
  }
  out << "checkpoint " << Plain(checkpoint.name()) << " at step " << checkpoint.step() << " of job " << options.job
      << " is no longer in the catalogue; its file stays, of " << ShowSize(checkpoint.size_bytes()) << ": "
      << Plain(checkpoint.path(), kMostPathBytes) << "\n"
      << "to free the space, remove it and " << Plain(ManifestPath(checkpoint.path()), kMostPathBytes)
      << " on a host that has them\n";
  return 0;
}

void AddCheckpointCommand(CLI::App* app, int* exit_code) {
  CLI::App* checkpoint =
      app->add_subcommand("checkpoint", "List and verify the checkpoints of a catalogue, or delete one");
  checkpoint->require_subcommand(1);
  // shared: by the two callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<CheckpointOptions>();
  const std::string state_home = launcher::ReadRunEnvironment().state_home.path;
  options->source.jobs_directory = JobsDirectory(state_home);
  options->source.serve_directory = ServeDirectory(state_home);

  CLI::App* list = checkpoint->add_subcommand("list", "Show the catalogue");
  AddSourceOptions(list, options.get());
  list->callback([options, exit_code] { *exit_code = ListCheckpoints(*options, absl::Now(), std::cout, std::cerr); });

  CLI::App* verify = checkpoint->add_subcommand("verify", "Read each file and compare it with what was committed");
  AddSourceOptions(verify, options.get());
  verify->add_option("FILE", options->files, "Checkpoints (or their manifests) instead of a catalogue's");
  verify->callback([options, exit_code] { *exit_code = VerifyCheckpoints(*options, std::cout, std::cerr); });

  const auto deletion = std::make_shared<DeleteCheckpointOptions>();
  deletion->source.state_home = state_home;
  deletion->name = "checkpoint";
  CLI::App* remove = checkpoint->add_subcommand("delete", "Take a checkpoint out of the catalogue; its file stays");
  remove->add_option("JOB", deletion->job, "The job's name")->required();
  remove->add_option("--step", deletion->step, "The checkpoint's step")->required();
  remove->add_option("--name", deletion->name, "The checkpoint's name")->capture_default_str();
  remove->add_option("--tenant", deletion->tenant,
                     "Only jobs of this tenant (needs a role of the cluster for another's)");
  AddCoordinatorOptions(remove, &deletion->source);
  remove->add_flag("--json", deletion->json, "Print JSON instead of text");
  remove->callback([deletion, exit_code] { *exit_code = DeleteCheckpoint(*deletion, std::cout, std::cerr); });
}

}  // namespace farandole
