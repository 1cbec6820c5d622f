#include "deploy/cli/upkeep/store_command.h"

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "server/backup/state_backup.h"
#include "server/store/rocksdb_store.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;

absl::StatusOr<std::string> DirectoryOf(const StoreCommandOptions& options) {
  if (!options.state_dir.empty()) return options.state_dir;
  if (absl::Status status = CheckStateHome(options.state_home); !status.ok()) return status;
  return ServeDirectory(options.state_home);
}

int Report(const absl::Status& status, std::ostream& err) {
  err << "farandole store: " << status.message() << "\n";
  return kFailed;
}

Json BackupJson(const std::string& file, const BackupFacts& facts) {
  return {{"file", file},
          {"rows", facts.rows},
          {"row_bytes", facts.bytes},
          {"schema", facts.head.schema()},
          {"version", facts.head.version()},
          {"made_unix_ms", facts.head.made_unix_ms()},
          {"sha256", absl::BytesToHexString(facts.sha256)}};
}

std::string RowCount(uint64_t rows) { return absl::StrCat(rows, rows == 1 ? " row" : " rows"); }

// "backup FILE: 12 rows, 34 kB, SHA-256 ...".
void TellBackup(const StoreCommandOptions& options, const BackupFacts& facts, absl::string_view done,
                std::ostream& out) {
  if (options.json) {
    out << ShowJson(BackupJson(options.file, facts), 2) << "\n";
    return;
  }
  out << "backup " << options.file << " of " << ShowTime(absl::FromUnixMillis(facts.head.made_unix_ms()))
      << " by farandole " << facts.head.version() << " " << done << ": " << RowCount(facts.rows) << ", "
      << ShowSize(facts.bytes) << ", SHA-256 " << absl::BytesToHexString(facts.sha256) << "\n";
}

}  // namespace

int ShowStoreStatus(const StoreCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  const absl::StatusOr<StateFacts> facts = DescribeState(*directory);
  if (!facts.ok()) return Report(facts.status(), err);
  Json kinds = Json::object();
  std::vector<std::vector<std::string>> rows;
  for (const auto& [kind, of_kind] : facts->kinds) {
    kinds[kind] = {{"rows", of_kind.rows}, {"bytes", of_kind.bytes}};
    rows.push_back({kind, absl::StrCat(of_kind.rows), ShowSize(of_kind.bytes)});
  }
  if (options.json) {
    out << ShowJson(Json{{"state_dir", *directory},
                         {"schema", facts->schema},
                         {"disk_bytes", facts->disk_bytes},
                         {"free_bytes", facts->free_bytes},
                         {"coordinator_pid", facts->holder},
                         {"kinds", kinds}},
                    2)
        << "\n";
    return 0;
  }
  out << "store in " << *directory << ", version " << facts->schema << " of the rows: " << ShowSize(facts->disk_bytes)
      << " on disk, " << ShowSize(facts->free_bytes) << " free there; "
      << (facts->holder == 0 ? "no coordinator has it open"
                             : absl::StrCat("the coordinator of process ", facts->holder, " has it open"))
      << "\n";
  PrintTable({{"KIND"}, {"ROWS", true}, {"SIZE", true}}, rows, out);
  return 0;
}

int CheckStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.file.empty()) {
    const absl::StatusOr<BackupFacts> facts = ReadBackup(options.file, nullptr);
    if (!facts.ok()) return Report(facts.status(), err);
    TellBackup(options, *facts, "is whole", out);
    return 0;
  }
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  const absl::StatusOr<StateVerdict> verdict = CheckState(*directory);
  if (!verdict.ok()) return Report(verdict.status(), err);
  if (options.json) {
    out << ShowJson(Json{{"state_dir", *directory}, {"rows", verdict->rows}, {"broken", verdict->broken}}, 2) << "\n";
  } else {
    for (const std::string& sentence : verdict->broken) err << "farandole store: " << sentence << "\n";
    out << "store in " << *directory << ": " << RowCount(verdict->rows) << ", "
        << (verdict->broken.empty() ? "all whole" : absl::StrCat(verdict->broken.size(), " broken")) << "\n";
  }
  return verdict->broken.empty() ? 0 : kFailed;
}

int BackUpStore(const StoreCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  const absl::StatusOr<BackupFacts> facts = BackUpState(*directory, options.file, now);
  if (!facts.ok()) return Report(facts.status(), err);
  TellBackup(options, *facts, absl::StrCat("was made of ", *directory), out);
  return 0;
}

int RestoreStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  const absl::StatusOr<BackupFacts> facts = RestoreState(options.file, *directory);
  if (!facts.ok()) return Report(facts.status(), err);
  TellBackup(options, *facts, absl::StrCat("was restored to ", *directory), out);
  return 0;
}

int CompactStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> directory = DirectoryOf(options);
  if (!directory.ok()) return Report(directory.status(), err);
  const absl::StatusOr<StateFacts> before = DescribeState(*directory);
  if (!before.ok()) return Report(before.status(), err);
  const absl::Status compacted = CompactRocksdbStore(absl::StrCat(*directory, "/", kStoreFolder));
  if (!compacted.ok()) return Report(compacted, err);
  const absl::StatusOr<StateFacts> after = DescribeState(*directory);
  if (!after.ok()) return Report(after.status(), err);
  if (options.json) {
    out << ShowJson(Json{{"state_dir", *directory},
                         {"disk_bytes_before", before->disk_bytes},
                         {"disk_bytes", after->disk_bytes}},
                    2)
        << "\n";
  } else {
    out << "store in " << *directory << ": " << ShowSize(before->disk_bytes) << " before, "
        << ShowSize(after->disk_bytes) << " now\n";
  }
  return 0;
}

void AddStoreCommand(CLI::App* app, int* exit_code) {
  CLI::App* store = app->add_subcommand("store", "Look after a coordinator's state directory: backup, restore, check");
  store->require_subcommand(1);
  // shared: by the callbacks, of which CLI11 keeps copies.
  const auto options = std::make_shared<StoreCommandOptions>();
  options->state_home = launcher::ReadRunEnvironment().state_home.path;
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = store->add_subcommand(name, help);
    command
        ->add_option("--state-dir", options->state_dir,
                     "The state directory; by default $XDG_STATE_HOME/farandole/serve (~/.local/state/farandole/serve)")
        ->type_name("DIR");
    command->add_flag("--json", options->json, "Print JSON instead of text");
    return command;
  };
  CLI::App* status = add("status", "Show what it holds, and who has it open");
  status->callback([options, exit_code] { *exit_code = ShowStoreStatus(*options, std::cout, std::cerr); });
  CLI::App* backup = add("backup", "Write a backup with a checksum, also while the coordinator runs");
  backup->add_option("FILE", options->file, "A new file; it has the start token, and is for its owner only")
      ->required();
  backup->callback([options, exit_code] { *exit_code = BackUpStore(*options, absl::Now(), std::cout, std::cerr); });
  CLI::App* restore = add("restore", "Make a new state directory of a backup");
  restore->add_option("FILE", options->file, "The backup")->required();
  restore->callback([options, exit_code] { *exit_code = RestoreStore(*options, std::cout, std::cerr); });
  CLI::App* check = add("check", "Compare all that is kept with its checksums, also while the coordinator runs");
  check->add_option("FILE", options->file, "A backup instead of a state directory");
  check->callback([options, exit_code] { *exit_code = CheckStore(*options, std::cout, std::cerr); });
  CLI::App* compact = add("compact", "Give back the space of deleted rows, while no coordinator runs there");
  compact->callback([options, exit_code] { *exit_code = CompactStore(*options, std::cout, std::cerr); });
}

}  // namespace farandole
