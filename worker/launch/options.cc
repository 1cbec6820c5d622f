#include "worker/launch/options.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/state_home.h"
#include "base/text/part_name.h"
#include "base/tls/client_certificate.h"
#include "worker/launch/horovod_variables.h"
#include "worker/launch/process_environment.h"
#include "worker/launch/setting_file.h"

namespace farandole {
namespace {

struct TextSetting {
  const char* variable;
  const char* default_value;
  const char* meaning;
};
struct NumberSetting {
  const char* variable;
  int64_t default_value;
  int64_t least;
  int64_t most;
  const char* meaning;
};

constexpr TextSetting kCoordinator = {"FARANDOLE_COORDINATOR", "",
                                      "HOST:PORT of the coordinator; none: a job of size 1"};
constexpr TextSetting kTokenFile = {"FARANDOLE_TOKEN_FILE", "", "file with the tenant's token"};
constexpr TextSetting kCaFile = {"FARANDOLE_CA_FILE", "",
                                 "file with the certificates (PEM) that the coordinator's descends from; none: no TLS"};
constexpr TextSetting kCertFile = {"FARANDOLE_CERT_FILE", "",
                                   "file with the certificate (PEM) by which the worker proves itself to the "
                                   "coordinator; where there is a token as well, the token counts; none: by "
                                   "the token alone"};
constexpr TextSetting kKeyFile = {"FARANDOLE_KEY_FILE", "",
                                  "file with that certificate's key (PEM), which not every user of the host may read"};
constexpr TextSetting kCoordinatorUsers = {
    "FARANDOLE_COORDINATOR_USERS", "farandole",
    "without TLS: users of this host, besides root and the worker's own, whose programs may have the coordinator's "
    "port; names or numbers with commas between them, \"*\": anyone"};
constexpr TextSetting kJob = {"FARANDOLE_JOB", "job", "the job's name"};
constexpr TextSetting kProgram = {"FARANDOLE_PROGRAM", "",
                                  "path of `farandole`; none: the one beside the worker library, or what PATH finds"};
constexpr TextSetting kPath = {"PATH", "", "where programs are found"};
constexpr TextSetting kTemporary = {"TMPDIR", "/tmp", "where temporary files go"};
constexpr TextSetting kStateHome = {"XDG_STATE_HOME", "", "where programs keep their state; none: HOME/.local/state"};
constexpr TextSetting kHome = {"HOME", "", "the user's directory"};
constexpr TextSetting kTransport = {
    "FARANDOLE_TRANSPORT", "auto",
    "\"auto\" (shared memory within a host, TCP between hosts), \"shm\" (one host), \"tcp\" (also "
    "within a host) or \"gloo\" (also within a host; only for networks that are trusted)"};
constexpr TextSetting kNetworkInterfaces = {"FARANDOLE_NETWORK_INTERFACES", "",
                                            "names, addresses or networks of the interfaces on which workers of other "
                                            "hosts reach this one, with commas between them; none: all that are up"};
constexpr TextSetting kNcclLibrary = {
    "FARANDOLE_NCCL_LIBRARY", "",
    "path of NCCL's library, for collectives between GPUs; \"none\": do not use NCCL; not set: the one that the "
    "framework has loaded, or the system's"};
constexpr TextSetting kHostId = {
    "FARANDOLE_HOST_ID", "",
    "at most 30 bytes; workers with different ones do not share memory, as if they were on "
    "different hosts"};
constexpr TextSetting kLogLevel = {"FARANDOLE_LOG_LEVEL", "info",
                                   "least level of the library's lines on stderr: trace|debug|info|warning|error|off"};
constexpr TextSetting kLogFormat = {"FARANDOLE_LOG_FORMAT", "text", "how a line is written: text|json"};
constexpr TextSetting kTimeline = {
    "FARANDOLE_TIMELINE", "",
    "file in which rank 0 records what tensors waited for, for chrome://tracing; \".rank1\" and so on come before its "
    "extension on the others; none: nothing is recorded"};
constexpr TextSetting kFlight = {
    "FARANDOLE_FLIGHT", "",
    "set by the launcher: path of the memory in which this worker records its latest collectives; none: its own"};
constexpr NumberSetting kSize = {"FARANDOLE_SIZE", 1, 1, 65536, "number of workers"};
// The C interface has it plus 1.
constexpr NumberSetting kLaunchIndex = {"FARANDOLE_LAUNCH_INDEX", 0, 0, 2'147'483'646,
                                        "the launcher's number for this worker, never given twice in a job"};
constexpr NumberSetting kLocalSlot = {"FARANDOLE_LOCAL_SLOT", 0, 0, 65535,
                                      "the number of this worker's place on its host, given by the launcher: its local "
                                      "rank while all places of the host are filled"};
constexpr NumberSetting kJoinTimeout = {"FARANDOLE_JOIN_TIMEOUT_MS", 600'000, 1, 86'400'000,
                                        "how long to wait for all workers"};
constexpr NumberSetting kStallWarning = {"FARANDOLE_STALL_WARNING_MS", 10'000, 100, 86'400'000,
                                         "time for which a tensor may wait for ranks before it counts as stalled"};
constexpr NumberSetting kStallLimit = {"FARANDOLE_STALL_LIMIT_MS", 0, 0, 86'400'000,
                                       "time after which a stalled tensor ends the job; in an elastic job, the late "
                                       "ranks are lost instead (never before the stall warning); 0: never"};
constexpr NumberSetting kFusion = {"FARANDOLE_FUSION_THRESHOLD_BYTES", 64 << 20, 0, int64_t{1} << 40,
                                   "most bytes of a fused batch"};
constexpr NumberSetting kOutageLimit = {"FARANDOLE_OUTAGE_LIMIT_MS", 30'000, 100, 86'400'000,
                                        "how long the coordinator may be away"};
constexpr NumberSetting kTimelineMarksCycles = {"FARANDOLE_TIMELINE_MARK_CYCLES", 0, 0, 1,
                                                "1: the beginning of each batch is marked in the timeline"};
constexpr NumberSetting kNcclSplit = {"FARANDOLE_NCCL_SPLIT", 0, 0, 1,
                                      "1: the first GPU collective of all ranks makes the communicators of all process "
                                      "sets that exist by then (ncclCommSplit); 0: each set's own first collective "
                                      "makes its communicator; rank 0's value counts"};
constexpr NumberSetting kEncrypt = {
    "FARANDOLE_ENCRYPT", 0, 0, 1,
    "1: tensors, and what orders them, are encrypted and authenticated where they cross a network, and GPUs of "
    "different hosts exchange nothing by NCCL; equal on all ranks; not with FARANDOLE_TRANSPORT=gloo"};
constexpr NumberSetting kNvtx = {
    "FARANDOLE_NVTX", 1, 0, 1, "0: a profiler that takes NVTX, as Nsight Systems does, gets no ranges of collectives"};
constexpr NumberSetting kNativeStacks = {
    "FARANDOLE_NATIVE_STACKS", 1, 0, 1,
    "1: when the coordinator asks what a rank does, `farandole stacks` reads the stacks of the process's compiled code "
    "and stops each thread for a moment; 0: no thread is stopped, and there are no such stacks"};
constexpr NumberSetting kMinSize = {
    "FARANDOLE_MIN_SIZE", 0, 1, 65536,
    "fewest workers of an epoch; it, or FARANDOLE_MAX_SIZE, makes the job elastic; none: FARANDOLE_SIZE"};
constexpr NumberSetting kMaxSize = {"FARANDOLE_MAX_SIZE", 0, 1, 65536,
                                    "most workers of an epoch of an elastic job; none: FARANDOLE_SIZE"};
constexpr NumberSetting kJoinWindow = {
    "FARANDOLE_JOIN_WINDOW_MS", 200, 0, 60'000,
    "elastic: how long the coordinator waits for more newcomers after the first, before it tells the ranks"};
constexpr NumberSetting kShortageLimit = {
    "FARANDOLE_ELASTIC_TIMEOUT_MS", 600'000, 1, 86'400'000,
    "elastic: how long there may be fewer than FARANDOLE_MIN_SIZE workers before the job fails"};
constexpr NumberSetting kResetLimit = {"FARANDOLE_RESET_LIMIT", 0, 0, 2'147'483'647,
                                       "elastic: most epochs that may be lost before the job fails; 0: any number"};
constexpr NumberSetting kLeastCooldown = {
    "FARANDOLE_COOLDOWN_MIN_MS", 0, 0, 86'400'000,
    "elastic: how long a host on which workers fail is barred at first, doubled with each failure"};
constexpr NumberSetting kMostCooldown = {"FARANDOLE_COOLDOWN_MAX_MS", 0, 0, 86'400'000,
                                         "elastic: how long it is barred at most; both 0: no host is barred"};

constexpr const TextSetting* kTexts[] = {&kCoordinator, &kTokenFile,         &kCaFile,      &kCertFile,
                                         &kKeyFile,     &kCoordinatorUsers,  &kJob,         &kProgram,
                                         &kTransport,   &kNetworkInterfaces, &kNcclLibrary, &kHostId,
                                         &kLogLevel,    &kLogFormat,         &kTimeline,    &kFlight};
constexpr const NumberSetting* kNumbers[] = {&kSize,         &kLaunchIndex,         &kJoinTimeout, &kStallWarning,
                                             &kFusion,       &kOutageLimit,         &kMinSize,     &kMaxSize,
                                             &kJoinWindow,   &kShortageLimit,       &kResetLimit,  &kLeastCooldown,
                                             &kMostCooldown, &kTimelineMarksCycles, &kStallLimit,  &kNvtx,
                                             &kLocalSlot,    &kNcclSplit,           &kEncrypt,     &kNativeStacks};

// Where NCCL's RAS listens by itself.
constexpr char kNcclRas[] = "localhost:28028";
// A host's identity may have 128 bytes in all.
constexpr size_t kMostHostIdBytes = 30;

// The values of Horovod's variables, by our settings' names.
using Aliases = std::map<std::string, std::string>;

// "" where neither the setting's variable nor one of Horovod's is set.
std::string Find(const Aliases& aliases, const char* variable) {
  // If both are set they say the same, or the program itself has set Horovod's.
  const auto alias = aliases.find(variable);
  if (alias != aliases.end()) return alias->second;
  const char* found = getenv(variable);
  return found == nullptr ? "" : found;
}

std::string ReadText(const Aliases& aliases, const TextSetting& setting, const char* given) {
  if (given != nullptr && *given != '\0') return given;
  const std::string found = Find(aliases, setting.variable);
  return found.empty() ? setting.default_value : found;
}

bool IsSet(const char* variable) {
  const char* found = getenv(variable);
  return found != nullptr && *found != '\0';
}

// `given` counts if it is not 0.
absl::StatusOr<int64_t> ReadNumber(const Aliases& aliases, const NumberSetting& setting, int64_t given) {
  int64_t value = given;
  if (given == 0) {
    const std::string found = Find(aliases, setting.variable);
    if (found.empty()) return setting.default_value;
    if (!absl::SimpleAtoi(found, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.variable, " is \"", found, "\", which is no whole number (", setting.meaning, ")"));
    }
  }
  if (value < setting.least || value > setting.most) {
    return absl::InvalidArgumentError(absl::StrCat(setting.variable, " is ", value, ", but must be from ",
                                                   setting.least, " to ", setting.most, " (", setting.meaning, ")"));
  }
  return value;
}

absl::Status ReadNumbers(const farandole_init_options& given, const Aliases& aliases, WorkerOptions* options) {
  const struct {
    const NumberSetting& setting;
    int64_t given;
  } rows[] = {{kSize, given.size},
              {kLaunchIndex, given.launch_index},
              {kJoinTimeout, given.join_timeout_ms},
              {kStallWarning, given.stall_warning_ms},
              {kFusion, given.fusion_threshold_bytes},
              {kOutageLimit, given.outage_limit_ms},
              {kMinSize, given.min_size},
              {kMaxSize, given.max_size},
              {kJoinWindow, given.join_window_ms},
              {kShortageLimit, given.shortage_limit_ms},
              {kResetLimit, given.reset_limit},
              {kLeastCooldown, given.least_cooldown_ms},
              {kMostCooldown, given.most_cooldown_ms},
              {kTimelineMarksCycles, 0},
              {kStallLimit, 0},
              {kNvtx, 0},
              {kLocalSlot, 0},
              {kNcclSplit, 0},
              {kEncrypt, 0},
              {kNativeStacks, 0}};
  int64_t values[std::size(rows)];
  for (size_t row = 0; row < std::size(rows); ++row) {
    // The launch index is given plus 1, so that 0 means unset.
    const bool is_index = &rows[row].setting == &kLaunchIndex;
    absl::StatusOr<int64_t> value = is_index && rows[row].given != 0
                                        ? absl::StatusOr<int64_t>(rows[row].given - 1)
                                        : ReadNumber(aliases, rows[row].setting, rows[row].given);
    if (!value.ok()) return value.status();
    values[row] = *value;
  }
  options->size = static_cast<int>(values[0]);
  options->launch_index = static_cast<int>(values[1]);
  options->join_timeout = absl::Milliseconds(values[2]);
  options->stall_warning = absl::Milliseconds(values[3]);
  options->fusion_bytes = values[4];
  options->outage_limit = absl::Milliseconds(values[5]);
  options->min_size = static_cast<int>(values[6]);
  options->max_size = static_cast<int>(values[7]);
  options->join_window = absl::Milliseconds(values[8]);
  options->shortage_limit = absl::Milliseconds(values[9]);
  options->reset_limit = static_cast<int>(values[10]);
  options->least_cooldown = absl::Milliseconds(values[11]);
  options->most_cooldown = absl::Milliseconds(values[12]);
  options->timeline_marks_cycles = values[13] != 0;
  options->stall_limit = absl::Milliseconds(values[14]);
  if (values[15] != 0) options->profiler = Find({}, "NVTX_INJECTION64_PATH");
  options->local_slot = static_cast<int>(values[16]);
  options->nccl_splits = values[17] != 0;
  options->encrypts = values[18] != 0;
  options->native_stacks = values[19] != 0;
  return absl::OkStatus();
}

absl::Status NotAtMost(const NumberSetting& less, int64_t value, const NumberSetting& more, int64_t bound) {
  return absl::InvalidArgumentError(
      absl::StrCat(less.variable, " is ", value, ", but must be at most ", more.variable, ", which is ", bound));
}

// Once the size is known.
absl::Status CheckElastic(WorkerOptions* options) {
  if (options->least_cooldown > options->most_cooldown) {
    return NotAtMost(kLeastCooldown, absl::ToInt64Milliseconds(options->least_cooldown), kMostCooldown,
                     absl::ToInt64Milliseconds(options->most_cooldown));
  }
  if (options->min_size == 0 && options->max_size == 0) return absl::OkStatus();
  if (options->min_size == 0) options->min_size = options->size;
  if (options->max_size == 0) options->max_size = options->size;
  if (options->min_size > options->size) return NotAtMost(kMinSize, options->min_size, kSize, options->size);
  if (options->size > options->max_size) return NotAtMost(kSize, options->size, kMaxSize, options->max_size);
  return absl::OkStatus();
}

absl::Status NotOneOf(const TextSetting& setting, const std::string& value, const char* words) {
  return absl::InvalidArgumentError(absl::StrCat(setting.variable, " is \"", value, "\", but must be one of ", words));
}

absl::Status ReadLogSettings(const Aliases& aliases, WorkerOptions* options) {
  const std::string level = ReadText(aliases, kLogLevel, nullptr);
  const std::optional<LogLevel> known_level = ParseLogLevel(level);
  if (!known_level.has_value()) return NotOneOf(kLogLevel, level, kLogLevels);
  options->log_level = *known_level;
  const std::string format = ReadText(aliases, kLogFormat, nullptr);
  const std::optional<LogFormat> known_format = ParseLogFormat(format);
  if (!known_format.has_value()) return NotOneOf(kLogFormat, format, kLogFormats);
  options->log_format = *known_format;
  return absl::OkStatus();
}

// Except for the library's path they are NCCL's own.
void TakeNcclSettings(WorkerOptions* options) {
  options->nccl_library = ReadText({}, kNcclLibrary, nullptr);
  options->nccl_blocks = Find({}, "NCCL_COMM_BLOCKING") == "1";
  const std::string ras = Find({}, "NCCL_RAS_ADDR");
  // NCCL takes every number but 0 for yes.
  int64_t is_enabled = 1;
  const bool is_off = absl::SimpleAtoi(Find({}, "NCCL_RAS_ENABLE"), &is_enabled) && is_enabled == 0;
  options->nccl_ras = is_off ? "" : ras.empty() ? kNcclRas : ras;
}

// The parent's process, told apart from a later one of the same number by its start (proc(5): stat, 22).
std::string NameParent() {
  std::ifstream file(absl::StrCat("/proc/", getppid(), "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::vector<std::string> fields = absl::StrSplit(text.substr(std::min(text.size(), text.rfind(')') + 1)), ' ');
  return absl::StrCat(getppid(), "-", fields.size() > 20 ? fields[20] : "0");
}

// Values of plain mpirun or srun count where the user gives none.
absl::Status ReadLaunch(const farandole_init_options& given, WorkerOptions* options) {
  if (given.size != 0 || IsSet(kSize.variable)) return absl::OkStatus();
  absl::StatusOr<std::optional<ForeignLaunch>> launch = FindForeignLaunch(&getenv, NameParent());
  if (!launch.ok()) return launch.status();
  if (!launch->has_value()) return absl::OkStatus();
  options->size = (*launch)->size;
  options->launch_index = (*launch)->rank;
  if (options->size == 1) return absl::OkStatus();
  options->launched = (*launch)->processes;
  if (!options->coordinator.empty()) return absl::OkStatus();
  options->launch = **std::move(launch);
  // Named after the program, if the user names none.
  if (given.job == nullptr && !IsSet(kJob.variable)) options->job = "";
  return absl::OkStatus();
}

// Makes some of the launch's workers a job of their own.
absl::Status TakeMembers(const farandole_init_options& given, WorkerOptions* options) {
  if (given.members == nullptr) return absl::OkStatus();
  const std::vector<int> members(given.members, given.members + given.member_count);
  if (options->is_elastic()) {
    return absl::InvalidArgumentError("an elastic job cannot be divided: its workers come and go");
  }
  const std::set<int> different(members.begin(), members.end());
  if (members.empty() || different.size() < members.size() || *different.begin() < 0 ||
      *different.rbegin() >= options->size) {
    return absl::InvalidArgumentError(absl::StrCat("the ranks [", absl::StrJoin(members, ", "),
                                                   "] must be different ones of the ", options->size,
                                                   " that were launched"));
  }
  const auto own = std::find(members.begin(), members.end(), options->launch_index);
  if (own == members.end()) {
    return absl::InvalidArgumentError(absl::StrCat("this worker is number ", options->launch_index,
                                                   " of the launch, which is not among the ranks [",
                                                   absl::StrJoin(members, ", "), "] that are to form a job"));
  }
  if (!options->job.empty()) options->job = NamePart(options->job, members);
  options->launch_index = static_cast<int>(own - members.begin());
  options->local_slot = 0;
  if (options->launch.has_value()) {
    ForeignLaunch& launch = *options->launch;
    const bool is_one_host = launch.local_size == launch.size;
    launch.rank = options->launch_index;
    launch.size = static_cast<int>(members.size());
    // How many of them are here is not known where the launch has several hosts.
    launch.local_size = is_one_host ? launch.size : std::min(launch.local_size, launch.size - 1);
    absl::StrAppend(&launch.name, ".", NameMembers(members));
  }
  options->size = static_cast<int>(members.size());
  if (options->launched.has_value()) options->launched->members = members;
  // The job has no other worker, and rank 0 need not start a coordinator.
  if (options->size == 1) options->launch.reset();
  return absl::OkStatus();
}

std::vector<std::string> AllVariables() {
  std::vector<std::string> all;
  for (char** variable = ProcessEnvironment(); *variable != nullptr; ++variable) all.emplace_back(*variable);
  return all;
}

// The environment at the process's start, as the kernel has kept it.
std::set<std::string> InitialVariables() {
  std::ifstream file("/proc/self/environ", std::ios::binary);
  std::set<std::string> all;
  for (std::string variable; std::getline(file, variable, '\0');) all.insert(variable);
  return all;
}

// The certificate by which the worker proves itself.
absl::Status TakeCertificate(const farandole_init_options& given, const Aliases& aliases, WorkerOptions* options) {
  options->cert_file = ReadText(aliases, kCertFile, given.cert_file);
  options->key_file = ReadText(aliases, kKeyFile, given.key_file);
  if (options->cert_file.empty() && options->key_file.empty()) return absl::OkStatus();
  if (options->cert_file.empty() || options->key_file.empty() || options->ca_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kCertFile.variable, " is \"", options->cert_file, "\", ",
                                                   kKeyFile.variable, " is \"", options->key_file, "\", ",
                                                   kCaFile.variable, " is \"", options->ca_file,
                                                   "\": a certificate needs its key, and TLS; set all three"));
  }
  absl::StatusOr<Certificate> pair = ReadClientCertificate(options->cert_file, options->key_file, absl::Now());
  if (!pair.ok()) return absl::UnauthenticatedError(pair.status().message());
  options->certificate = *std::move(pair);
  return absl::OkStatus();
}

}  // namespace

std::vector<WorkerSetting> WorkerSettings() {
  std::vector<WorkerSetting> settings;
  for (const TextSetting* text : kTexts) settings.push_back({text->variable, text->default_value, "", text->meaning});
  for (const NumberSetting* number : kNumbers) {
    const bool has_default = number->default_value >= number->least;
    settings.push_back({number->variable, has_default ? absl::StrCat(number->default_value) : "",
                        absl::StrCat(number->least, " to ", number->most), number->meaning});
  }
  return settings;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  if (path.empty()) {
    return absl::UnauthenticatedError(absl::StrCat("a coordinator is named, but no token file; set ",
                                                   kTokenFile.variable, ", or ", kCertFile.variable, " and ",
                                                   kKeyFile.variable));
  }
  absl::StatusOr<std::string> text = ReadSettingFile(path, "token file");
  if (!text.ok()) return text;
  return std::string(absl::StripAsciiWhitespace(*text));
}

WorkerOptions ReadNcclSettings() {
  WorkerOptions options;
  TakeNcclSettings(&options);
  return options;
}

absl::StatusOr<WorkerOptions> ReadWorkerOptions(const farandole_init_options* caller) {
  farandole_init_options given = {};
  if (caller != nullptr) memcpy(&given, caller, std::min<size_t>(caller->struct_bytes, sizeof(given)));
  const std::vector<std::string> variables = AllVariables();
  const absl::StatusOr<Aliases> read = ReadHorovodVariables(variables, InitialVariables());
  if (!read.ok()) return read.status();
  const Aliases& aliases = *read;
  WorkerOptions options;
  options.warning = DescribeUnknownHorovodVariables(variables);
  if (absl::Status status = ReadNumbers(given, aliases, &options); !status.ok()) return status;
  if (absl::Status status = ReadLogSettings(aliases, &options); !status.ok()) return status;
  options.coordinator = ReadText(aliases, kCoordinator, given.coordinator);
  options.token_file = ReadText(aliases, kTokenFile, given.token_file);
  options.ca_file = ReadText(aliases, kCaFile, given.ca_file);
  options.coordinator_users = ReadText(aliases, kCoordinatorUsers, nullptr);
  options.job = ReadText(aliases, kJob, given.job);
  options.transport = ReadText(aliases, kTransport, given.transport);
  options.network_interfaces =
      absl::StrSplit(ReadText(aliases, kNetworkInterfaces, nullptr), ',', absl::SkipWhitespace());
  TakeNcclSettings(&options);
  options.host_id = ReadText(aliases, kHostId, nullptr);
  options.timeline = ReadText(aliases, kTimeline, nullptr);
  options.flight = ReadText(aliases, kFlight, nullptr);
  if (options.host_id.size() > kMostHostIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(kHostId.variable, " has ", options.host_id.size(),
                                                   " bytes, but may have ", kMostHostIdBytes, " at most"));
  }
  const std::set<std::string> transports = {"auto", "shm", "tcp", "gloo"};
  if (transports.count(options.transport) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kTransport.variable, " is \"", options.transport, "\", but must be ", kTransport.meaning));
  }
  if (options.encrypts && options.transport == "gloo") {
    return absl::InvalidArgumentError(
        absl::StrCat(kEncrypt.variable, " is 1 and ", kTransport.variable,
                     " is \"gloo\", but Gloo encrypts nothing and takes any process for a peer; set ",
                     kTransport.variable, " to \"auto\" or \"tcp\""));
  }
  options.program = ReadText(aliases, kProgram, given.program);
  options.path = ReadText(aliases, kPath, nullptr);
  options.temporary = TemporaryDirectory(ReadText(aliases, kTemporary, nullptr));
  options.state_home = ReadText(aliases, kStateHome, nullptr);
  const std::string home = ReadText(aliases, kHome, nullptr);
  if (options.state_home.empty() && !home.empty()) options.state_home = absl::StrCat(home, "/.local/state");
  if (absl::Status status = ReadLaunch(given, &options); !status.ok()) return status;
  if (absl::Status status = CheckElastic(&options); !status.ok()) return status;
  if (absl::Status status = TakeMembers(given, &options); !status.ok()) return status;
  if (options.launch.has_value()) return options;
  if (options.coordinator.empty()) {
    if (options.size != 1) {
      return absl::InvalidArgumentError(absl::StrCat(kSize.variable, " is ", options.size,
                                                     ", but no coordinator is named; set ", kCoordinator.variable,
                                                     " or start the program by `farandole run`"));
    }
    return options;
  }
  if (absl::Status status = TakeCertificate(given, aliases, &options); !status.ok()) return status;
  if (!options.token_file.empty() || options.cert_file.empty()) {
    absl::StatusOr<std::string> token = ReadToken(options.token_file);
    if (!token.ok()) return token.status();
    if (token->empty() && !options.cert_file.empty())
      return absl::UnauthenticatedError(absl::StrCat("the token file ", options.token_file, " is empty"));
    options.token = *std::move(token);
  }
  if (options.ca_file.empty()) return options;
  absl::StatusOr<std::string> ca = ReadSettingFile(options.ca_file, "CA file");
  if (!ca.ok()) return ca.status();
  options.ca_pem = *std::move(ca);
  return options;
}

}  // namespace farandole
