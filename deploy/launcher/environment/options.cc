#include "deploy/launcher/environment/options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "worker/launch/horovod_variables.h"

namespace farandole::launcher {
namespace {

// As in proto/farandole/v1/worker.proto (JoinRequest): 1 to 65,536 workers; names of 1 to 128 bytes; a day.
constexpr int kMaxWorkers = 65536;
// A coordinator's default (server/job/job.h): the bound of a job whose hosts are discovered.
constexpr int kMaxDiscoveredWorkers = 4096;
constexpr size_t kMaxNameBytes = 128;
constexpr double kMaxStartTimeoutSeconds = 86400;
constexpr int kMostPriority = 1000;
constexpr int kMaxCooldownSeconds = 86400;
constexpr int kMaxResets = 1'000'000;
// Leaves room for "-2".
constexpr size_t kMaxDefaultNameBytes = 120;

// Words that Horovod writes with one dash, which CLI11 takes for letters.
constexpr absl::string_view kOneDash[] = {"-np", "-cb", "-hostfile", "-prefix-timestamp"};

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

// The argument of an interpreter that names its script or module; "" if there is none.
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

absl::StatusOr<std::vector<HostSlots>> ReadHosts(const RunOptions& options) {
  if (options.hostfile.empty()) return ParseHosts(options.hosts);
  std::ifstream file(options.hostfile);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hostfile ", options.hostfile, " cannot be read: ", strerror(errno)));
  }
  return ParseHostfile(text.str(), options.hostfile);
}

absl::Status CheckOnlyOneIsHere(const std::vector<HostSlots>& hosts) {
  std::string here;
  for (const HostSlots& host : hosts) {
    if (!host.is_here) continue;
    if (!here.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("hosts ", here, " and ", host.host, " are both this machine; name it once, with all its slots"));
    }
    here = host.host;
  }
  return absl::OkStatus();
}

absl::Status CompleteHosts(const std::string& own_name, RunOptions* options) {
  if (options->hosts.empty() && options->hostfile.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<HostSlots>> hosts = ReadHosts(*options);
  if (!hosts.ok()) return hosts.status();
  MarkThisMachine(own_name, &*hosts);
  const int slots = CountSlots(*hosts);
  if (options->workers == 0)
    options->workers = options->max_workers > 0 ? std::min(slots, options->max_workers) : slots;
  if (options->workers > slots) {
    return absl::InvalidArgumentError(absl::StrCat("-np ", options->workers, " is more than the ", slots, " slots of ",
                                                   options->hostfile.empty()
                                                       ? absl::StrCat("--hosts ", options->hosts)
                                                       : absl::StrCat("--hostfile ", options->hostfile)));
  }
  options->slots = *std::move(hosts);
  if (options->is_elastic()) return CheckOnlyOneIsHere(options->slots);
  options->shares = SpreadWorkers(options->slots, options->workers);
  // Hosts that get no worker do not matter.
  options->slots.resize(options->shares.size());
  return CheckOnlyOneIsHere(options->slots);
}

absl::Status CheckOrder(const char* less, int least, const char* greater, int most) {
  if (least <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(less, " ", least, " is more than ", greater, " ", most));
}

// Refuses options that only elastic jobs have.
absl::Status CheckFixed(const RunOptions& options) {
  const std::pair<const char*, double> given[] = {
      {"--slots-per-host", options.slots_per_host},
      {"--elastic-timeout", options.elastic_timeout_s},
      {"--reset-limit", options.reset_limit},
      {"--lost-timeout", options.lost_limit_s},
      {"--blacklist-cooldown-range", options.cooldown_s.empty() ? 0 : options.cooldown_s.back()},
  };
  for (const auto& [name, value] : given) {
    if (value == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, " ", value, " is for elastic jobs: give --min-np, --max-np or --host-discovery-script as well"));
  }
  return absl::OkStatus();
}

// After the hosts are complete.
absl::Status CompleteElastic(RunOptions* options) {
  if (!options->is_elastic()) return CheckFixed(*options);
  if (options->max_workers == 0) {
    const int slots = options->discovery.empty() ? CountSlots(options->slots) : kMaxDiscoveredWorkers;
    options->max_workers = std::max(options->workers, slots);
  }
  absl::Status status = CheckOrder("--min-np", options->min_workers, "-np", options->workers);
  status.Update(CheckOrder("-np", options->workers, "--max-np", options->max_workers));
  if (options->discovery.empty() && options->slots.empty() && options->slots_per_host > 0) {
    status.Update(CheckOrder("-np", options->workers, "--slots-per-host", options->slots_per_host));
  }
  if (!options->cooldown_s.empty()) {
    status.Update(CheckOrder("--blacklist-cooldown-range: MIN", options->cooldown_s[0], "MAX", options->cooldown_s[1]));
  }
  return status;
}

// Sets both bounds where anything says that the job is elastic.
void FindWhetherElastic(RunOptions* options) {
  const bool is_elastic = options->min_workers > 0 || options->max_workers > 0 || !options->discovery.empty();
  if (!is_elastic) return;
  const bool has_hosts = !options->hosts.empty() || !options->hostfile.empty();
  if (options->workers == 0 && !has_hosts) options->workers = options->min_workers;
  if (options->min_workers == 0) options->min_workers = std::max(1, options->workers);
}

absl::Status CompleteCoordinator(const RunEnvironment& environment, RunOptions* options) {
  if (options->attach && options->coordinator.empty()) {
    if (environment.coordinator.empty()) {
      return absl::InvalidArgumentError(
          "--attach needs a coordinator: give --coordinator HOST:PORT, or set FARANDOLE_COORDINATOR");
    }
    options->coordinator = environment.coordinator;
    if (options->token_file.empty()) options->token_file = environment.token_file;
    if (options->ca_file.empty()) options->ca_file = environment.ca_file;
    if (options->cert_file.empty() && options->key_file.empty()) {
      options->cert_file = environment.cert_file;
      options->key_file = environment.key_file;
    }
  }
  if (options->coordinator.empty()) {
    const char* lost = options->priority != 0 ? "--priority" : options->no_queue ? "--no-queue" : "";
    if (!options->key_file.empty()) lost = "--key";
    if (!options->cert_file.empty()) lost = "--cert";
    if (!options->ca_file.empty()) lost = "--ca";
    if (!options->token_file.empty()) lost = "--token-file";
    if (*lost == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(lost, " belongs to a --coordinator"));
  }
  if (absl::Status status = CheckCertificateOptions(options->cert_file, options->key_file, options->ca_file);
      !status.ok()) {
    return status;
  }
  if (!options->token_file.empty() || !options->cert_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--coordinator ", options->coordinator,
                                                 " needs a --token-file with a token that it accepts, or a "
                                                 "certificate: --cert and --key"));
}

// Sets `seconds` if it is 0 and the variable says something.
absl::Status ReadSeconds(const char* variable, const std::string& text, double* seconds) {
  if (text.empty() || *seconds != 0) return absl::OkStatus();
  if (absl::SimpleAtod(text, seconds) && *seconds > 0 && *seconds <= kMaxStartTimeoutSeconds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      variable, " is \"", text, "\", but must be seconds, more than 0 and up to ", kMaxStartTimeoutSeconds));
}

absl::Status CheckExported(const std::vector<std::string>& exported) {
  for (const std::string& variable : exported) {
    if (!variable.empty() && variable[0] != '=') continue;
    return absl::InvalidArgumentError(absl::StrCat("-x ", variable, ": a variable is written NAME or NAME=VALUE"));
  }
  return absl::OkStatus();
}

void AddQueueOptions(CLI::App* run, RunOptions* options) {
  CLI::Option* no_queue = run->add_flag("--no-queue", options->no_queue,
                                        "Fail at once, instead of waiting, where the tenant's quota has no room");
  run->add_option("--priority", options->priority,
                  "Of the launches of the tenant that wait, one with a higher priority starts first (by default 0)")
      ->check(CLI::Range(-kMostPriority, kMostPriority))
      ->type_name("N")
      ->excludes(no_queue);
}

void AddElasticOptions(CLI::App* run, RunOptions* options) {
  run->add_option("--min-np,--min-num-proc", options->min_workers,
                  "Fewest workers with which the job goes on; makes it elastic: workers come and go while it runs")
      ->check(CLI::Range(1, kMaxWorkers))
      ->type_name("N");
  run->add_option("--max-np,--max-num-proc", options->max_workers,
                  "Most workers at a time; by default all slots of the hosts")
      ->check(CLI::Range(1, kMaxWorkers))
      ->type_name("N");
  run->add_option("--host-discovery-script", options->discovery,
                  "Command that prints the hosts there are, lines HOST or HOST:SLOTS, asked every second")
      ->type_name("COMMAND")
      ->excludes("--hosts")
      ->excludes("--hostfile");
  run->add_option("--slots-per-host", options->slots_per_host,
                  "Workers on a host for which the script says no number (by default 1), or on this host")
      ->check(CLI::Range(1, kMaxWorkers))
      ->type_name("N");
  run->add_option("--elastic-timeout", options->elastic_timeout_s,
                  "Seconds for which the job may have fewer workers than --min-np (by default 600)")
      ->check(CLI::Range(0.001, kMaxStartTimeoutSeconds))
      ->type_name("S");
  run->add_option("--reset-limit", options->reset_limit,
                  "Most epochs that may end by a loss; the next loss ends the job; by default no limit")
      ->check(CLI::Range(1, kMaxResets))
      ->type_name("N");
  run->add_option(
         "--lost-timeout", options->lost_limit_s,
         "Seconds after which the process of a worker that is lost, but still there, is replaced (by default 10)")
      ->check(CLI::Range(0.001, kMaxStartTimeoutSeconds))
      ->type_name("S");
  run->add_option("--blacklist-cooldown-range", options->cooldown_s,
                  "Seconds for which a host is barred after failures there, doubling from MIN to MAX; by default never")
      ->check(CLI::Range(0, kMaxCooldownSeconds))
      ->type_size(2)
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name("MIN MAX");
}

void AddEncryptOptions(CLI::App* run, RunOptions* options) {
  const auto set = [options](const char* value) { options->horovod.variables["FARANDOLE_ENCRYPT"] = value; };
  CLI::Option* encrypt = run->add_flag_callback(
      "--encrypt", [set] { set("1"); }, "Tensors are encrypted and authenticated where they cross a network");
  run->add_flag_callback(
         "--no-encrypt", [set] { set("0"); }, "They are not, whatever FARANDOLE_ENCRYPT says; the default")
      ->excludes(encrypt);
}

}  // namespace

absl::Status CheckCertificateOptions(const std::string& cert_file, const std::string& key_file,
                                     const std::string& ca_file) {
  if (cert_file.empty() && key_file.empty()) return absl::OkStatus();
  if (cert_file.empty() || key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cert and --key belong together; ", cert_file.empty() ? "--cert" : "--key", " is missing"));
  }
  if (!ca_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--cert ", cert_file,
                   " needs --ca as well: certificates are shown by TLS, to a coordinator that is known by its own"));
}

RunEnvironment ReadRunEnvironment() {
  RunEnvironment read;
  read.path = Variable("PATH");
  read.temporary = TemporaryDirectory(Variable("TMPDIR"));
  read.state_home = FindStateHome(Variable("XDG_STATE_HOME"), Variable("HOME"), read.temporary);
  read.coordinator = Variable("FARANDOLE_COORDINATOR");
  read.token_file = Variable("FARANDOLE_TOKEN_FILE");
  read.ca_file = Variable("FARANDOLE_CA_FILE");
  read.cert_file = Variable("FARANDOLE_CERT_FILE");
  read.key_file = Variable("FARANDOLE_KEY_FILE");
  read.drop_in = Variable("FARANDOLE_HOROVOD") == "1";
  read.start_timeout = Variable("HOROVOD_START_TIMEOUT");
  read.elastic_timeout = Variable("HOROVOD_ELASTIC_TIMEOUT");
  for (char** variable = environ; *variable != nullptr; ++variable) read.variables.emplace_back(*variable);
  return read;
}

std::string CoordinatorUsers() { return Variable("FARANDOLE_COORDINATOR_USERS"); }

void AddMaxSlotsOption(CLI::App* command, uint32_t* max_slots) {
  command
      ->add_option("--max-slots", *max_slots,
                   "Most tensor names that the coordinator of this run knows at a time (by default 32768)")
      ->check(CLI::Range(1024, 65536))
      ->type_name("N")
      ->envname("FARANDOLE_MAX_SLOTS");
}

void AddRunOptions(CLI::App* run, RunOptions* options) {
  run->add_option("-n,--np,--num-proc", options->workers, "Number of workers; -np is the same")
      ->check(CLI::Range(1, kMaxWorkers))
      ->type_name("N");
  CLI::Option* hosts = run->add_option("-H,--hosts", options->hosts,
                                       "Where to run, by ssh: HOST:SLOTS, separated by commas; by default here")
                           ->type_name("HOST:SLOTS,...");
  run->add_option("--hostfile", options->hostfile, "The same from a file with lines 'HOST slots=N'")
      ->type_name("FILE")
      ->excludes(hosts);
  AddElasticOptions(run, options);
  run->add_option("-p,--ssh-port", options->ssh_port, "Port of the hosts' ssh servers")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  run->add_option("-i,--ssh-identity-file", options->ssh_identity_file, "Private key for ssh")->type_name("FILE");
  run->add_option("--ssh-config", options->ssh_config, "Configuration of ssh instead of ~/.ssh/config")
      ->type_name("FILE");
  run->add_option("--remote-farandole", options->remote_farandole,
                  "Path of farandole on the other hosts; by default this program's own, then what PATH finds there")
      ->type_name("PATH");
  run->add_option("-x", options->exported,
                  "Variable that the workers get, also on other hosts: NAME, or NAME=VALUE; may be repeated")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_option("--job", options->job, "Name of the job; by default the script's, without its extension")
      ->type_name("NAME");
  run->add_option("--state-dir", options->state_dir,
                  "Where the job's state and checkpoint catalogue are kept; by default "
                  "$XDG_STATE_HOME/farandole/jobs/NAME (~/.local/state/...)")
      ->type_name("DIR");
  CLI::Option* coordinator = run->add_option("--coordinator", options->coordinator,
                                             "Coordinator to use; by default this command is one, on a port of its own")
                                 ->type_name("HOST:PORT");
  run->add_option("--token-file", options->token_file, "File that holds the token for --coordinator")
      ->type_name("FILE");
  run->add_option("--ca", options->ca_file,
                  "CA certificates (PEM) that signed the coordinator's certificate; without it there is no TLS")
      ->type_name("FILE");
  run->add_option("--cert", options->cert_file,
                  "Certificate (PEM) that stands for a token, where the coordinator takes certificates; with --key")
      ->type_name("FILE");
  run->add_option("--key", options->key_file, "That certificate's key (PEM)")->type_name("FILE");
  run->add_flag("--attach", options->attach,
                "Use a coordinator that runs already: --coordinator, or FARANDOLE_COORDINATOR with its "
                "FARANDOLE_TOKEN_FILE, FARANDOLE_CA_FILE, FARANDOLE_CERT_FILE and FARANDOLE_KEY_FILE");
  AddQueueOptions(run, options);
  run->add_option("--http", options->http,
                  "Where this run's dashboard is, on loopback, such as 127.0.0.1:7071, or auto: on any free port")
      ->type_name("HOST:PORT|auto")
      ->excludes(coordinator);
  AddMaxSlotsOption(run, &options->max_slots);
  AddEncryptOptions(run, options);
  run->add_option("--output-filename", options->output_directory,
                  "Directory in which rank.N/stdout and rank.N/stderr get each worker's output too")
      ->type_name("DIR");
  run->add_option("--progress", options->progress,
                  "Whose progress bars are shown while they change: rank 0's (by default), those of all, or none")
      ->check(CLI::IsMember({"0", "all", "none"}))
      ->type_name("0|all|none");
  run->add_option("--start-timeout", options->start_timeout_s,
                  "Seconds until which all hosts must be ready (by default 60), and all workers must have joined "
                  "(by default 600)")
      ->check(CLI::Range(0.001, kMaxStartTimeoutSeconds))
      ->type_name("S");
  run->add_flag("--verbose", options->verbose, "Say what is started, and with which settings");
  AddHorovodOptions(run, &options->horovod);
  run->add_option("command", options->command, "What each worker runs")->type_name("COMMAND...")->expected(-1);
}

std::vector<std::string> MarkCommand(const CLI::App& run, const std::vector<std::string>& arguments) {
  std::vector<std::string> marked;
  size_t i = 0;
  for (; i < arguments.size() && absl::StartsWith(arguments[i], "-") && arguments[i] != "--"; ++i) {
    std::string argument = arguments[i];
    // Horovod's parser takes -np2 for -np 2.
    if (argument.size() > 3 && absl::StartsWith(argument, "-np") && absl::ascii_isdigit(argument[3]))
      argument.insert(3, "=");
    std::vector<std::string> parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (std::find(std::begin(kOneDash), std::end(kOneDash), parts[0]) != std::end(kOneDash)) {
      argument.insert(0, "-");
      parts[0].insert(0, "-");
    }
    marked.push_back(argument);
    const CLI::Option* option = run.get_option_no_throw(parts[0]);
    int values = option == nullptr ? 0 : option->get_items_expected_min();
    if (parts.size() > 1) --values;
    for (; values > 0 && i + 1 < arguments.size(); --values) marked.push_back(arguments[++i]);
  }
  if (i < arguments.size() && arguments[i] == "--") ++i;
  if (i < arguments.size()) marked.push_back("--");
  marked.insert(marked.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return marked;
}

std::vector<std::string> WorkerVariables(const RunEnvironment& environment, const RunOptions& options) {
  std::map<std::string, std::string> said = options.horovod.variables;
  // Told in another way, later.
  if (options.elastic_timeout_s > 0) said.emplace("FARANDOLE_ELASTIC_TIMEOUT_MS", "");
  std::vector<std::string> variables;
  for (const std::string& variable : environment.variables) {
    const std::string name = variable.substr(0, variable.find('='));
    bool is_said = said.count(name) > 0;
    for (const HorovodAlias& alias : HorovodAliases()) {
      is_said = is_said || (name == alias.variable && said.count(alias.setting) > 0);
    }
    if (!is_said) variables.push_back(variable);
  }
  for (const auto& [name, value] : said) {
    if (!value.empty()) variables.push_back(absl::StrCat(name, "=", value));
  }
  return variables;
}

absl::Status CompleteRunOptions(const RunEnvironment& environment, const std::string& own_name, RunOptions* options) {
  if (options->command.empty()) {
    return absl::InvalidArgumentError("no command is given; it follows the options: -np N COMMAND...");
  }
  options->horovod.drop_in = options->horovod.drop_in || environment.drop_in;
  FindWhetherElastic(options);
  absl::Status status = CompleteHosts(own_name, options);
  status.Update(ReadSeconds("HOROVOD_START_TIMEOUT", environment.start_timeout, &options->start_timeout_s));
  if (options->is_elastic()) {
    status.Update(ReadSeconds("HOROVOD_ELASTIC_TIMEOUT", environment.elastic_timeout, &options->elastic_timeout_s));
  }
  if (status.ok() && options->workers > 0) status = CompleteElastic(options);
  status.Update(CompleteCoordinator(environment, options));
  status.Update(CheckExported(options->exported));
  if (!status.ok()) return status;
  if (options->workers == 0) return absl::InvalidArgumentError("-np is missing: how many workers are to be started?");
  return options->job.empty() ? absl::OkStatus() : CheckJobName(options->job, "--job");
}

absl::Status CheckJobName(const std::string& job, const std::string& where) {
  bool is_valid = !job.empty() && job.size() <= kMaxNameBytes && job != "." && job != "..";
  for (char c : job) is_valid = is_valid && IsNameCharacter(c);
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, " '", job, "': a job's name has 1 to ", kMaxNameBytes,
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
