#include "deploy/cli/access/quota_command.h"

#include <iostream>
#include <memory>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "deploy/cli/access/token_command.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "web/access_json.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;
constexpr int kWrongCommandLine = 2;

int Report(const absl::Status& status, std::ostream& err) {
  err << "farandole quota: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? kWrongCommandLine : kFailed;
}

}  // namespace

int SetQuota(const QuotaCommandOptions& options, std::ostream& out, std::ostream& err) {
  v1::SetQuotaRequest request;
  request.set_tenant(options.tenant);
  if (options.max_jobs.has_value()) request.set_max_jobs(*options.max_jobs);
  if (options.max_workers.has_value()) request.set_max_workers(*options.max_workers);
  if (options.max_store_bytes.has_value()) request.set_max_store_bytes(*options.max_store_bytes);
  if (options.cohort.has_value()) request.set_cohort(*options.cohort);
  if (options.weight.has_value()) request.set_weight(*options.weight);
  if (options.borrow.has_value()) request.set_borrow(*options.borrow);
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err);
  const absl::StatusOr<v1::SetQuotaResponse> set = session->SetQuota(request);
  if (!set.ok()) return Report(set.status(), err);
  const v1::TenantSummary& tenant = set->tenant();
  if (options.json) {
    out << ShowJson(QuotaJson(tenant), 2) << "\n";
    return 0;
  }
  out << "tenant " << tenant.tenant() << ": " << tenant.max_jobs() << " jobs, " << tenant.max_workers() << " workers, "
      << ShowSize(tenant.max_store_bytes()) << " in the store";
  if (!tenant.cohort().empty()) {
    out << "; up to " << tenant.borrow() << " more workers from cohort " << tenant.cohort() << "; weight "
        << tenant.weight();
  }
  out << "\n";
  return 0;
}

int ShowQuotas(const QuotaCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err);
  const absl::StatusOr<std::vector<v1::TenantSummary>> tenants = session->ListTenants();
  if (!tenants.ok()) return Report(tenants.status(), err);
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const v1::TenantSummary& tenant : *tenants) {
    if (!options.tenant.empty() && tenant.tenant() != options.tenant) continue;
    array.push_back(TenantJson(tenant));
    const bool has_cohort = !tenant.cohort().empty();
    rows.push_back({tenant.tenant(), absl::StrCat(tenant.jobs(), "/", tenant.max_jobs()),
                    absl::StrCat(tenant.workers(), "/", tenant.max_workers()),
                    absl::StrCat(ShowSize(tenant.store_bytes()), "/", ShowSize(tenant.max_store_bytes())),
                    has_cohort ? tenant.cohort() : "-", has_cohort ? absl::StrCat(tenant.borrow()) : "-",
                    has_cohort ? absl::StrCat(tenant.weight()) : "-", absl::StrCat(tenant.queued_jobs()),
                    absl::StrCat(tenant.queued_workers())});
  }
  if (!options.tenant.empty() && rows.empty())
    return Report(absl::NotFoundError(absl::StrCat("the token may see no tenant ", options.tenant)), err);
  if (options.json) {
    out << ShowJson(array, 2) << "\n";
  } else {
    PrintTable({{"TENANT"},
                {"JOBS", true},
                {"WORKERS", true},
                {"STORE", true},
                {"COHORT"},
                {"BORROWS", true},
                {"WEIGHT", true},
                {"QUEUED JOBS", true},
                {"QUEUED WORKERS", true}},
               rows, out);
  }
  return 0;
}

void AddQuotaCommand(CLI::App* app, int* exit_code) {
  // shared: by the callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<QuotaCommandOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  CLI::App* quota = app->add_subcommand("quota", "Show and set what tenants may have at a time");
  quota->require_subcommand(1);
  CLI::App* set = quota->add_subcommand("set", "Set a tenant's quota; what is not given stays as it is");
  set->add_option("NAME", options->tenant, "The tenant")->required();
  CLI::Option_group* what = set->add_option_group("what", "At least one of these");
  what->add_option("--jobs", options->max_jobs, "Most jobs that it may run at a time; 0: the default of 64");
  what->add_option("--workers", options->max_workers, "Most workers in them together; 0: the default of 4096");
  what->add_option("--store", options->max_store_bytes,
                   "Most bytes of its rows in the store: 256MiB; 0: the default of 1GiB")
      ->transform(CLI::AsSizeValue(false));
  what->add_option("--cohort", options->cohort, "Tenants of a cohort lend each other workers; \"\": none");
  what->add_option("--borrow", options->borrow, "Most workers that it may borrow from its cohort");
  what->add_option("--weight", options->weight, "Its share of what a cohort has is divided by this: 1 to 1000");
  what->require_option(1, 0);
  set->callback([options, exit_code] { *exit_code = SetQuota(*options, std::cout, std::cerr); });
  CLI::App* show = quota->add_subcommand("show", "Show quotas, what is used of them, and what waits in the queue");
  show->add_option("NAME", options->tenant, "Only this tenant's");
  show->callback([options, exit_code] { *exit_code = ShowQuotas(*options, std::cout, std::cerr); });
  for (CLI::App* command : {set, show}) {
    AddCoordinatorOptions(command, &options->source);
    command->add_flag("--json", options->json, "Print JSON instead of text");
  }
}

}  // namespace farandole
