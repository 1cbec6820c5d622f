#include "deploy/cli/access/audit_command.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "server/audit/audit_chain.h"
#include "server/audit/audit_log.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> DirectoryOf(const AuditCommandOptions& options) {
  if (!options.state_dir.empty()) return absl::StrCat(options.state_dir, "/", kAuditFolder);
  if (absl::Status status = CheckStateHome(options.state_home); !status.ok()) return status;
  return absl::StrCat(ServeDirectory(options.state_home), "/", kAuditFolder);
}

std::vector<const char*> KindsOf(const AuditCommandOptions& options) {
  std::vector<const char*> kinds;
  if (!options.only_denials) kinds.push_back(kChanges);
  if (!options.only_changes) kinds.push_back(kDenials);
  return kinds;
}

int Report(const absl::Status& status, std::ostream& err) {
  err << "farandole audit: " << status.message() << "\n";
  return 1;
}

// The last `most` lines of a chain, from as many files as that takes.
absl::StatusOr<std::vector<Json>> LastLines(const std::string& directory, const char* name, size_t most) {
  const absl::StatusOr<std::vector<uint64_t>> numbers = FilesOfChain(directory, name);
  if (!numbers.ok()) return numbers.status();
  std::vector<Json> last;
  for (auto number = numbers->rbegin(); number != numbers->rend() && last.size() < most; ++number) {
    const std::string path = ChainFile(directory, name, *number);
    std::ifstream file(path);
    if (!file.is_open()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) {
      Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_object()) lines.push_back(std::move(json));
    }
    const size_t missing = std::min(most - last.size(), lines.size());
    last.insert(last.begin(), lines.end() - static_cast<std::ptrdiff_t>(missing), lines.end());
  }
  return last;
}

std::string TextOf(const Json& line, const char* field) {
  return line.contains(field) && line[field].is_string() ? line[field].get<std::string>() : "";
}

// "token 0123456789abcdef" of a change, or as a denial has it.
std::string WhoOf(const Json& line) {
  if (!line.contains("principal")) return "";
  const Json& principal = line["principal"];
  if (!principal.is_object()) return TextOf(line, "principal").empty() ? "nobody known" : TextOf(line, "principal");
  return absl::StrCat(TextOf(principal, "kind"), " ", TextOf(principal, "id"), " of ", TextOf(principal, "tenant"));
}

std::string OutcomeOf(const Json& line) {
  const bool is_counted = line.contains("count") && line["count"].is_number_unsigned();
  return absl::StrCat(TextOf(line, "outcome"), is_counted ? absl::StrCat(" x", line["count"].get<uint64_t>()) : "");
}

}  // namespace

int TailAudit(const AuditCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  std::vector<Json> all;
  for (const char* kind : KindsOf(options)) {
    absl::StatusOr<std::vector<Json>> lines = LastLines(*directory, kind, options.lines);
    if (!lines.ok()) return Report(lines.status(), err);
    all.insert(all.end(), lines->begin(), lines->end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Json& a, const Json& b) { return TextOf(a, "time") < TextOf(b, "time"); });
  std::vector<std::vector<std::string>> rows;
  for (const Json& line : all) {
    if (options.json) out << ShowJson(line, -1) << "\n";
    rows.push_back({TextOf(line, "time"), WhoOf(line), TextOf(line, "peer"), TextOf(line, "method"),
                    TextOf(line, "target"), OutcomeOf(line), TextOf(line, "reason")});
  }
  if (!options.json) PrintTable({{"TIME"}, {"WHO"}, {"FROM"}, {"METHOD"}, {"OF"}, {"OUTCOME"}, {"REASON"}}, rows, out);
  return 0;
}

int VerifyAudit(const AuditCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  Json array = Json::array();
  bool is_whole = true;
  for (const char* kind : KindsOf(options)) {
    const absl::StatusOr<ChainVerdict> verdict = VerifyChain(*directory, kind);
    if (!verdict.ok()) return Report(verdict.status(), err);
    is_whole = is_whole && verdict->broken.empty();
    array.push_back(Json{{"chain", kind},
                         {"lines", verdict->lines},
                         {"first_seq", verdict->first_seq},
                         {"last_seq", verdict->last_seq},
                         {"last_sha256", verdict->last_hash},
                         {"is_torn", verdict->is_torn},
                         {"broken", verdict->broken}});
    if (options.json) continue;
    if (!verdict->broken.empty()) {
      err << "farandole audit: " << verdict->broken << "\n";
      continue;
    }
    out << kind << ": " << verdict->lines << (verdict->lines == 1 ? " line is" : " lines are") << " whole";
    if (verdict->lines > 0) out << ", up to " << verdict->last_seq << " with SHA-256 " << verdict->last_hash;
    if (verdict->first_seq > 1) out << "; those before " << verdict->first_seq << " are gone with their files";
    out << (verdict->is_torn ? "; a last one has no end yet" : "") << "\n";
  }
  if (options.json) out << ShowJson(array, 2) << "\n";
  return is_whole ? 0 : 1;
}

void AddAuditCommand(CLI::App* app, int* exit_code) {
  CLI::App* audit = app->add_subcommand("audit", "Show or verify who changed what, and who was denied what");
  audit->require_subcommand(1);
  // shared: by the callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<AuditCommandOptions>();
  options->state_home = launcher::ReadRunEnvironment().state_home.path;
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = audit->add_subcommand(name, help);
    command->add_option("--state-dir", options->state_dir, "The coordinator's state directory")->type_name("DIR");
    command->add_flag("--json", options->json, "Print JSON instead of text");
    CLI::Option* changes = command->add_flag("--changes", options->only_changes, "Only changes");
    command->add_flag("--denials", options->only_denials, "Only denials")->excludes(changes);
    return command;
  };
  CLI::App* tail = add("tail", "Show the last lines");
  tail->add_option("-n,--lines", options->lines, "So many of each kind")->capture_default_str();
  tail->callback([options, exit_code] { *exit_code = TailAudit(*options, std::cout, std::cerr); });
  CLI::App* verify = add("verify", "Look whether lines were changed or taken out; name the first broken one");
  verify->callback([options, exit_code] { *exit_code = VerifyAudit(*options, std::cout, std::cerr); });
}

}  // namespace farandole
