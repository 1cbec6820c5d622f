// `farandole collectives`: which tensors cost a job time.
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/text/collectives_text.h"
#include "deploy/launcher/environment/options.h"
#include "web/files/evidence_text.h"

namespace farandole {
namespace {

struct CollectivesOptions {
  CoordinatorSource source;
  std::string job;
  std::string tenant;
  std::string order = "cost";
  bool json = false;
};

// By the words of the option.
const std::map<std::string, CollectiveOrder>& Orders() {
  static const auto* const orders = new std::map<std::string, CollectiveOrder>{
      {"cost", CollectiveOrder::kCost},           {"wait", CollectiveOrder::kWait},
      {"data", CollectiveOrder::kMoving},         {"size", CollectiveOrder::kBytes},
      {"bandwidth", CollectiveOrder::kBandwidth}, {"count", CollectiveOrder::kCount}};
  return *orders;
}

int Report(const absl::Status& status) {
  std::cerr << "farandole collectives: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

int Show(const CollectivesOptions& options) {
  const absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return Report(survey.status());
  const absl::StatusOr<KnownJob> known = FindServedJob(*survey, options.source, options.tenant, options.job,
                                                       ": what its ranks told of their collectives is not kept there");
  if (!known.ok()) return Report(known.status());
  const absl::StatusOr<v1::SurveyCollectivesResponse> answer =
      known->session->SurveyCollectives(known->summary.tenant(), options.job);
  if (!answer.ok()) return Report(answer.status());
  std::cout << (options.json ? EvidenceJson(*answer) : ShowCollectives(*answer, Orders().at(options.order)));
  return 0;
}

}  // namespace

void AddCollectivesCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "collectives", "Show which tensors cost a job time: waits, who came last, transfer, bandwidth");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<CollectivesOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  command->add_option("NAME", options->job, "The job's name")->required();
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant,
                      "Only a job of this tenant (needs a role of the cluster for another's)");
  command->add_option("--order", options->order, "The greatest comes first; cost: waits and data together")
      ->check(CLI::IsMember({"cost", "wait", "data", "bandwidth", "size", "count"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON instead of text");
  command->callback([options, exit_code] { *exit_code = Show(*options); });
}

}  // namespace farandole
