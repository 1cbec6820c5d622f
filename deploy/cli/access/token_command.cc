#include "deploy/cli/access/token_command.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/private_file.h"
#include "nlohmann/json.hpp"
#include "web/access_json.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;
constexpr int kWrongCommandLine = 2;
constexpr char kToken[] = "token";
constexpr char kTenant[] = "tenant";

int Report(const absl::Status& status, std::ostream& err, absl::string_view command) {
  err << "farandole " << command << ": " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? kWrongCommandLine : kFailed;
}

absl::StatusOr<v1::Role> ParseRole(const std::string& text) {
  std::string known;
  for (int role = v1::VIEWER; role <= v1::ROOT; ++role) {
    const std::string name = RoleText(static_cast<v1::Role>(role));
    if (name == text) return static_cast<v1::Role>(role);
    absl::StrAppend(&known, known.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(absl::StrCat("--role ", text, " is none of ", known));
}

// `--out` is looked at before the coordinator makes a token that could be kept nowhere.
absl::Status CheckOutFile(const std::string& path) {
  if (path.empty() || access(path.c_str(), F_OK) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--out ", path, " is there already"));
}

// Tells a new text of a token: to a file, or alone on a line of stdout, so that a script may take it.
int TellToken(const TokenCommandOptions& options, const std::string& text, const v1::Token& about,
              absl::string_view command, std::ostream& out, std::ostream& err) {
  if (!options.out_file.empty()) {
    if (absl::Status status = launcher::WriteNewFile(options.out_file, text + "\n"); !status.ok()) {
      err << text << "\n";
      return Report(status, err, command);
    }
  }
  if (options.json) {
    Json json = TokenJson(about);
    if (options.out_file.empty()) json["token"] = text;
    out << ShowJson(json, 2) << "\n";
    return 0;
  }
  if (options.out_file.empty()) out << text << "\n";
  err << "token " << about.id() << ": " << RoleText(about.role()) << " of tenant " << about.tenant() << ", "
      << (about.expires_unix_ms() == 0
              ? "does not expire"
              : absl::StrCat("until ", ShowTime(absl::FromUnixMillis(about.expires_unix_ms()))))
      << "; it is not shown again\n";
  return 0;
}

std::string ShowMoment(int64_t unix_ms, absl::string_view none) {
  return unix_ms == 0 ? std::string(none) : ShowTime(absl::FromUnixMillis(unix_ms));
}

std::string ShowEnd(const v1::Token& token) {
  if (token.revoked_unix_ms() != 0) return absl::StrCat("revoked ", ShowMoment(token.revoked_unix_ms(), ""));
  if (!token.ended().empty() && !absl::StrContains(token.ended(), "expired")) return "ended with its maker";
  return ShowMoment(token.expires_unix_ms(), "never");
}

}  // namespace

absl::StatusOr<CoordinatorSession> OpenServed(CoordinatorSource source) {
  if (source.coordinator.empty() && source.state_dir.empty()) {
    if (absl::Status status = CheckNamesCoordinator(source); !status.ok()) return status;
    if (absl::Status status = CheckStateHome(source.state_home); !status.ok()) return status;
    source.state_dir = ServeDirectory(source.state_home);
  }
  absl::StatusOr<FoundCoordinators> found = FindCoordinators(source);
  if (absl::IsNotFound(found.status()) || (found.ok() && found->coordinators.empty())) {
    return absl::NotFoundError(absl::StrCat("no coordinator works in ", source.state_dir,
                                            ": start it (farandole serve), or name another by --state-dir or "
                                            "--coordinator"));
  }
  if (!found.ok()) return found.status();
  return CoordinatorSession::Open(std::move(found->coordinators.front()));
}

absl::StatusOr<absl::Duration> ParseSpan(const std::string& option, const std::string& text) {
  const size_t day = text.find('d');
  const bool has_days = day != std::string::npos;
  const absl::string_view rest = absl::string_view(text).substr(has_days ? day + 1 : 0);
  uint32_t days = 0;
  absl::Duration hours;
  const bool is_span = (!has_days || absl::SimpleAtoi(text.substr(0, day), &days)) && !text.empty() &&
                       (rest.empty() || absl::ParseDuration(rest, &hours));
  const absl::Duration span = absl::Hours(24) * days + hours;
  if (is_span && hours >= absl::ZeroDuration() && span < absl::InfiniteDuration()) return span;
  return absl::InvalidArgumentError(absl::StrCat(option, " ", text, " is no span of time, as 30d, 12h or 90s are"));
}

int CreateToken(const TokenCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<v1::Role> role = ParseRole(options.role);
  if (!role.ok()) return Report(role.status(), err, kToken);
  v1::CreateTokenRequest request;
  request.set_tenant(options.tenant);
  request.set_role(*role);
  request.set_label(options.label);
  if (!options.lifetime.empty()) {
    const absl::StatusOr<absl::Duration> lifetime = ParseSpan("--ttl", options.lifetime);
    if (!lifetime.ok()) return Report(lifetime.status(), err, kToken);
    request.set_lifetime_seconds(static_cast<uint64_t>(absl::ToInt64Seconds(*lifetime)));
  }
  if (absl::Status status = CheckOutFile(options.out_file); !status.ok()) return Report(status, err, kToken);
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kToken);
  const absl::StatusOr<v1::CreateTokenResponse> made = session->CreateToken(request);
  if (!made.ok()) return Report(made.status(), err, kToken);
  return TellToken(options, made->token(), made->about(), kToken, out, err);
}

int ListTokens(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kToken);
  const absl::StatusOr<std::vector<v1::Token>> tokens = session->ListTokens(options.tenant);
  if (!tokens.ok()) return Report(tokens.status(), err, kToken);
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const v1::Token& token : *tokens) {
    array.push_back(TokenJson(token));
    const std::string used = token.last_used_unix_ms() == 0
                                 ? "never"
                                 : absl::StrCat(ShowAge(now - absl::FromUnixMillis(token.last_used_unix_ms())), " ago");
    rows.push_back({token.id(), token.tenant(), RoleText(token.role()), used, ShowEnd(token), token.label()});
  }
  if (options.json) {
    out << ShowJson(array, 2) << "\n";
  } else {
    PrintTable({{"ID"}, {"TENANT"}, {"ROLE"}, {"USED"}, {"ENDS"}, {"LABEL"}}, rows, out);
  }
  return 0;
}

int RotateToken(const TokenCommandOptions& options, std::ostream& out, std::ostream& err) {
  v1::RotateTokenRequest request;
  request.set_id(options.id);
  const absl::StatusOr<absl::Duration> overlap = ParseSpan("--overlap", options.overlap);
  if (!overlap.ok()) return Report(overlap.status(), err, kToken);
  request.set_overlap_seconds(static_cast<uint64_t>(absl::ToInt64Seconds(*overlap)));
  if (absl::Status status = CheckOutFile(options.out_file); !status.ok()) return Report(status, err, kToken);
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kToken);
  const absl::StatusOr<v1::RotateTokenResponse> rotated = session->RotateToken(request);
  if (!rotated.ok()) return Report(rotated.status(), err, kToken);
  return TellToken(options, rotated->token(), rotated->about(), kToken, out, err);
}

int RevokeToken(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  v1::RevokeTokenRequest request;
  request.set_id(options.id);
  request.set_and_made_with_it(options.and_made_with_it);
  if (!options.since.empty()) {
    if (!options.and_made_with_it)
      return Report(absl::InvalidArgumentError("--since belongs to --and-made-with-it"), err, kToken);
    const absl::StatusOr<absl::Duration> since = ParseSpan("--since", options.since);
    if (!since.ok()) return Report(since.status(), err, kToken);
    request.set_made_since_unix_ms(absl::ToUnixMillis(now - *since));
  }
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kToken);
  const absl::StatusOr<v1::RevokeTokenResponse> revoked = session->RevokeToken(request);
  if (!revoked.ok()) return Report(revoked.status(), err, kToken);
  if (options.json) {
    out << ShowJson(Json{{"ended", revoked->ended()}}, 2) << "\n";
  } else {
    out << "token " << options.id << " is revoked; " << revoked->ended()
        << (revoked->ended() == 1 ? " token has" : " tokens have") << " ended by it\n";
  }
  return 0;
}

int CreateTenant(const TokenCommandOptions& options, std::ostream& out, std::ostream& err) {
  v1::CreateTenantRequest request;
  request.set_tenant(options.tenant);
  request.set_max_jobs(options.max_jobs);
  request.set_max_workers(options.max_workers);
  request.set_max_store_bytes(options.max_store_bytes);
  request.set_cohort(options.cohort);
  request.set_weight(options.weight);
  request.set_borrow(options.borrow);
  if (absl::Status status = CheckOutFile(options.out_file); !status.ok()) return Report(status, err, kTenant);
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kTenant);
  const absl::StatusOr<v1::CreateTenantResponse> made = session->CreateTenant(request);
  if (!made.ok()) return Report(made.status(), err, kTenant);
  return TellToken(options, made->token(), made->about(), kTenant, out, err);
}

int ListTenants(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<CoordinatorSession> session = OpenServed(options.source);
  if (!session.ok()) return Report(session.status(), err, kTenant);
  const absl::StatusOr<std::vector<v1::TenantSummary>> tenants = session->ListTenants();
  if (!tenants.ok()) return Report(tenants.status(), err, kTenant);
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const v1::TenantSummary& tenant : *tenants) {
    array.push_back(TenantJson(tenant));
    rows.push_back({tenant.tenant(), absl::StrCat(tenant.jobs(), "/", tenant.max_jobs()),
                    absl::StrCat(tenant.workers(), "/", tenant.max_workers()),
                    absl::StrCat(ShowSize(tenant.store_bytes()), "/", ShowSize(tenant.max_store_bytes())),
                    absl::StrCat(tenant.tokens()), ShowAge(now - absl::FromUnixMillis(tenant.created_unix_ms()))});
  }
  if (options.json) {
    out << ShowJson(array, 2) << "\n";
  } else {
    PrintTable({{"TENANT"}, {"JOBS", true}, {"WORKERS", true}, {"STORE", true}, {"TOKENS", true}, {"AGE"}}, rows, out);
  }
  return 0;
}

void AddTokenCommands(CLI::App* app, int* exit_code) {
  // shared: by the callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<TokenCommandOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  const auto add = [&](CLI::App* group, const char* name, const char* help) {
    CLI::App* command = group->add_subcommand(name, help);
    AddCoordinatorOptions(command, &options->source);
    command->add_flag("--json", options->json, "Print JSON instead of text");
    return command;
  };
  const auto add_out = [&](CLI::App* command) {
    command->add_option("--out", options->out_file, "Write the token to this new file, for its owner only")
        ->type_name("FILE");
  };
  CLI::App* token = app->add_subcommand("token", "Make, list, rotate and revoke the tokens of a shared coordinator");
  token->require_subcommand(1);
  CLI::App* create = add(token, "create", "Make a token; it is printed once");
  create->add_option("--role", options->role, "viewer, launcher, operator, admin; auditor, cluster-operator, root")
      ->required();
  create->add_option("--tenant", options->tenant, "Its tenant; by default that of the token that is used");
  create->add_option("--label", options->label, "What it is for: a line for people");
  create->add_option("--ttl", options->lifetime, "How long it is good: 12h, 90d (the most); by default 30d");
  add_out(create);
  create->callback([options, exit_code] { *exit_code = CreateToken(*options, std::cout, std::cerr); });

  CLI::App* list = add(token, "list", "Show tokens, with their last use and their end");
  list->add_option("--tenant", options->tenant, "Only those of this tenant");
  list->callback([options, exit_code] { *exit_code = ListTokens(*options, absl::Now(), std::cout, std::cerr); });

  CLI::App* rotate = add(token, "rotate", "Give a token a new secret; it is printed once");
  rotate->add_option("ID", options->id, "The token's id")->required();
  options->overlap = "0s";
  rotate->add_option("--overlap", options->overlap, "For so long the old secret is good as well: 24h, 7d (the most)")
      ->capture_default_str();
  add_out(rotate);
  rotate->callback([options, exit_code] { *exit_code = RotateToken(*options, std::cout, std::cerr); });

  CLI::App* revoke = add(token, "revoke", "End a token, its streams, and the runs that were launched with it");
  revoke->add_option("ID", options->id, "The token's id")->required();
  revoke->add_flag("--and-made-with-it", options->and_made_with_it,
                   "Also the tokens that were made or rotated with it, and with those: after a leak");
  revoke->add_option("--since", options->since, "Of those only what was made in the last 2h, 7d");
  revoke->callback([options, exit_code] { *exit_code = RevokeToken(*options, absl::Now(), std::cout, std::cerr); });

  CLI::App* tenant = app->add_subcommand("tenant", "Make and list the tenants of a shared coordinator");
  tenant->require_subcommand(1);
  CLI::App* make = add(tenant, "create", "Make a tenant; the token of its admin is printed once");
  make->add_option("NAME", options->tenant, "1 to 64 of a-z, 0-9 and -")->required();
  make->add_option("--jobs", options->max_jobs, "Most jobs that it may run at a time; by default 64");
  make->add_option("--workers", options->max_workers, "Most workers in them together; by default 4096");
  make->add_option("--store", options->max_store_bytes, "Most bytes of its rows in the store: 256MiB; by default 1GiB")
      ->transform(CLI::AsSizeValue(false));
  make->add_option("--cohort", options->cohort, "Tenants of one cohort lend each other workers");
  make->add_option("--borrow", options->borrow, "Most workers that it may borrow from its cohort");
  make->add_option("--weight", options->weight, "Its share of what a cohort has is divided by this: 1 to 1000");
  add_out(make);
  make->callback([options, exit_code] { *exit_code = CreateTenant(*options, std::cout, std::cerr); });
  CLI::App* tenants = add(tenant, "list", "Show the tenants that the token may see");
  tenants->callback([options, exit_code] { *exit_code = ListTenants(*options, absl::Now(), std::cout, std::cerr); });
}

}  // namespace farandole
