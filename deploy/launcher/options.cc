#include "deploy/launcher/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole::launcher {
namespace {

// As in proto/farandole/v1/worker.proto (JoinRequest): 1 to 65,536 workers; names of 1 to 128 bytes; a day.
constexpr int kMaxWorkers = 65536;
constexpr size_t kMaxNameBytes = 128;
constexpr double kMaxStartTimeoutSeconds = 86400;
// Leaves room for "-2".
constexpr size_t kMaxDefaultNameBytes = 120;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; }

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsInterpreter(const std::string& program) {
  return absl::StartsWith(program, "python") || absl::StartsWith(program, "pypy") || program == "sh" ||
         program == "bash" || program == "dash" || program == "zsh";
}

// The argument of an interpreter that names its script or module; "" where there is none.
std::string ScriptArgument(const std::vector<std::string>& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& argument = command[i];
    if (argument == "-c") return "";
    if (argument == "-m") return i + 1 < command.size() ? command[i + 1] + ".module" : "";
    if (argument == "-W" || argument == "-X" || argument == "-o") {
      ++i;
    } else if (!absl::StartsWith(argument, "-")) {
      return BaseName(argument);
    }
  }
  return "";
}

absl::StatusOr<int> LocalSlots(const std::string& hosts) {
  const std::vector<std::string> entries = absl::StrSplit(hosts, ',');
  const std::vector<std::string> parts = absl::StrSplit(entries[0], absl::MaxSplits(':', 1));
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  if (entries.size() > 1 || (parts[0] != "localhost" && parts[0] != "127.0.0.1" && parts[0] != name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--hosts ", hosts, ": several or other hosts are not supported by this version, only localhost:N or ", name,
        ":N; start the command on each host with --coordinator instead, or leave --hosts out"));
  }
  int slots = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[1], &slots) || slots < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts ", hosts, ": a host is written NAME:SLOTS, with at least one slot"));
  }
  return slots;
}

}  // namespace

RunEnvironment ReadRunEnvironment() {
  RunEnvironment read;
  read.path = Variable("PATH");
  // The XDG specification: relative paths are to be ignored.
  const std::string state_home = Variable("XDG_STATE_HOME");
  const std::string home = Variable("HOME");
  if (absl::StartsWith(state_home, "/")) {
    read.state_home = state_home;
  } else if (absl::StartsWith(home, "/")) {
    read.state_home = absl::StrCat(home, "/.local/state");
  }
  for (char** variable = environ; *variable != nullptr; ++variable) read.variables.emplace_back(*variable);
  return read;
}

void AddRunOptions(CLI::App* run, RunOptions* options) {
  run->add_option("-n,--np,--num-proc", options->workers, "Number of workers; -np is the same")
      ->check(CLI::Range(1, kMaxWorkers))
      ->type_name("N");
  run->add_option("-H,--hosts", options->hosts, "Where to run: localhost:SLOTS (this version runs on one host)")
      ->type_name("HOST:SLOTS");
  run->add_option("--job", options->job, "Name of the job; by default the script's, without its extension")
      ->type_name("NAME");
  run->add_option("--state-dir", options->state_dir,
                  "Where the job's state and checkpoint catalogue are kept; by default "
                  "$XDG_STATE_HOME/farandole/jobs/NAME (~/.local/state/...)")
      ->type_name("DIR");
  CLI::Option* coordinator = run->add_option("--coordinator", options->coordinator,
                                             "Coordinator to use; by default this command is one, on a loopback port")
                                 ->type_name("HOST:PORT");
  CLI::Option* token_file =
      run->add_option("--token-file", options->token_file, "File that holds the token for --coordinator")
          ->type_name("FILE");
  run->add_option("--http", options->http, "Where this run's status page is, on loopback, such as 127.0.0.1:7071")
      ->type_name("HOST:PORT")
      ->excludes(coordinator);
  coordinator->needs(token_file);
  token_file->needs(coordinator);
  run->add_option("--output-filename", options->output_directory,
                  "Directory in which rank.N/stdout and rank.N/stderr get each worker's output too")
      ->type_name("DIR");
  run->add_option("--start-timeout", options->start_timeout_s,
                  "Seconds until which all workers must have joined; by default 600")
      ->check(CLI::Range(0.001, kMaxStartTimeoutSeconds))
      ->type_name("S");
  run->add_flag("--verbose", options->verbose, "Say what is started, and with which settings");
  run->add_option("command", options->command, "What each worker runs")->type_name("COMMAND...")->expected(-1);
}

std::vector<std::string> MarkCommand(const CLI::App& run, const std::vector<std::string>& arguments) {
  std::vector<std::string> marked;
  size_t i = 0;
  for (; i < arguments.size() && absl::StartsWith(arguments[i], "-") && arguments[i] != "--"; ++i) {
    std::string argument = arguments[i];
    if (argument == "-np" || absl::StartsWith(argument, "-np=")) argument.insert(0, "-");
    const std::vector<std::string> parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    marked.push_back(argument);
    const CLI::Option* option = run.get_option_no_throw(parts[0]);
    const bool takes_next = option != nullptr && option->get_items_expected_min() > 0 && parts.size() == 1;
    if (takes_next && i + 1 < arguments.size()) marked.push_back(arguments[++i]);
  }
  if (i < arguments.size() && arguments[i] == "--") ++i;
  if (i < arguments.size()) marked.push_back("--");
  marked.insert(marked.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return marked;
}

absl::Status CompleteRunOptions(RunOptions* options) {
  if (options->command.empty()) {
    return absl::InvalidArgumentError("no command is given: farandole run -np N COMMAND...");
  }
  if (!options->hosts.empty()) {
    const absl::StatusOr<int> slots = LocalSlots(options->hosts);
    if (!slots.ok()) return slots.status();
    if (options->workers == 0) options->workers = *slots;
    if (options->workers > *slots) {
      return absl::InvalidArgumentError(
          absl::StrCat("-np ", options->workers, " is more than the ", *slots, " slots of --hosts ", options->hosts));
    }
  }
  if (options->workers == 0) return absl::InvalidArgumentError("-np is missing: how many workers are to be started?");
  if (options->job.empty()) return absl::OkStatus();
  bool is_valid = options->job.size() <= kMaxNameBytes && options->job != "." && options->job != "..";
  for (char c : options->job) is_valid = is_valid && IsNameCharacter(c);
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--job '", options->job, "': a job's name has 1 to ", kMaxNameBytes,
                                                 " characters of A-Z, a-z, 0-9, '.', '_' and '-'"));
}

std::string DefaultJobName(const std::vector<std::string>& command) {
  const std::string program = command.empty() ? "" : BaseName(command[0]);
  std::string name = IsInterpreter(program) ? ScriptArgument(command) : program;
  if (name.empty()) name = program;
  const bool is_versioned_program = name == program && IsInterpreter(program);
  const size_t extension = name.rfind('.');
  if (!is_versioned_program && extension != std::string::npos && extension > 0) name.resize(extension);
  for (char& c : name) {
    if (!IsNameCharacter(c)) c = '-';
  }
  name.erase(0, name.find_first_not_of('.'));
  name.resize(std::min(name.size(), kMaxDefaultNameBytes));
  return name.empty() ? "job" : name;
}

}  // namespace farandole::launcher
