#include "deploy/cli/run_job.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "base/text/plain_text.h"
#include "base/text/trace_parent.h"
#include "base/usable_cores.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/coordinator_source.h"
#include "deploy/cli/coordinators/own_coordinator.h"
#include "deploy/cli/coordinators/run_claim.h"
#include "deploy/cli/job_reporter.h"
#include "deploy/launcher/environment/drop_in.h"
#include "deploy/launcher/environment/nccl_interfaces.h"
#include "deploy/launcher/environment/worker_environment.h"
#include "deploy/launcher/launch.h"
#include "deploy/launcher/process/early_signals.h"
#include "deploy/launcher/process/guard.h"
#include "deploy/launcher/process/private_file.h"
#include "deploy/launcher/process/worker_process.h"

namespace farandole::launcher {
namespace {

// The workers are gone then; what they did last is to be written down.
constexpr absl::Duration kDrainGrace = absl::Seconds(1);
// A connection that is not made by then is not going to be.
constexpr absl::Duration kConnectLimit = absl::Seconds(30);
// Bytes of a user's or a host's name that others are told.
constexpr size_t kMostName = 40;
// As long as workers wait for each other by default: a launch waits for its coordinator.
constexpr absl::Duration kCoordinatorPatience = absl::Minutes(10);
// For so long a launch waits without a word.
constexpr absl::Duration kUntold = absl::Seconds(2);
// Longer than a coordinator holds its answer to a launch that waits (kHold of run_claim.cc).
constexpr absl::Duration kSilentInQueue = absl::Seconds(7);
// A launch starts at most so many workers; so many ranges fit an int32.
constexpr int kIndexRange = 65536;
constexpr int kIndexRanges = 32767;

void Say(const RunOptions& options, absl::string_view sentence) {
  std::fprintf(stderr, "%s: %.*s\n", options.program.c_str(), static_cast<int>(sentence.size()), sentence.data());
}

// The hosts of an elastic job that are known from the start.
std::vector<HostSlots> ElasticHosts(const RunOptions& options) {
  if (!options.discovery.empty() || !options.slots.empty()) return options.slots;
  return {HostSlots{OwnHostName(), std::max(options.workers, options.slots_per_host), true}};
}

bool UsesOtherHosts(const RunOptions& options) {
  if (!options.discovery.empty()) return true;
  return std::any_of(options.slots.begin(), options.slots.end(), [](const HostSlots& host) { return !host.is_here; });
}

// The most at a time. A script may name this host or not.
int WorkersHere(const RunOptions& options) {
  if (options.is_elastic()) {
    int slots = options.discovery.empty() ? 0 : std::max(1, options.slots_per_host);
    for (const HostSlots& host : ElasticHosts(options)) slots += host.is_here ? host.slots : 0;
    return std::min(slots, options.max_workers);
  }
  if (options.shares.empty()) return options.workers;
  int here = 0;
  for (const HostShare& share : options.shares) here += share.is_here ? share.count : 0;
  return here;
}

// This machine among the hosts of the launch.
std::string NameHere(const RunOptions& options) {
  for (const HostSlots& host : options.slots) {
    if (host.is_here) return host.host;
  }
  return OwnHostName();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, absl::string_view flag) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file) return text.str();
  return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, " cannot be read: ", strerror(errno)));
}

absl::StatusOr<std::string> WorkingDirectory() {
  char path[PATH_MAX];
  if (getcwd(path, sizeof(path)) != nullptr) return std::string(path);
  return absl::FailedPreconditionError(absl::StrCat("the working directory is gone: ", strerror(errno)));
}

absl::StatusOr<SshOptions> MakeSshOptions(const RunOptions& options, const RunEnvironment& environment,
                                          absl::Duration reach_limit) {
  SshOptions ssh;
  const absl::StatusOr<std::string> client = FindExecutable("ssh", environment.path);
  if (!client.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("other hosts are reached by ssh: ", client.status().message()));
  }
  ssh.client = *client;
  ssh.port = options.ssh_port;
  ssh.identity_file = options.ssh_identity_file;
  ssh.config_file = options.ssh_config;
  ssh.environment = environment.variables;
  ssh.connect_limit = std::min(kConnectLimit, reach_limit);
  if (!options.remote_farandole.empty()) {
    if (!IsPlainPath(options.remote_farandole)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--remote-farandole ", options.remote_farandole,
                       ": the path goes through the other host's shell, and may have letters, digits and /._+- only"));
    }
    ssh.programs = {options.remote_farandole};
    return ssh;
  }
  const std::string own = OwnProgram();
  if (IsPlainPath(own)) ssh.programs.push_back(own);
  ssh.programs.emplace_back("farandole");
  return ssh;
}

ElasticSettings MakeElasticSettings(const RunOptions& options) {
  ElasticSettings elastic;
  if (!options.is_elastic()) return elastic;
  elastic.min_size = options.min_workers;
  elastic.max_size = options.max_workers;
  elastic.shortage_limit_ms = std::lround(std::ceil(options.elastic_timeout_s * 1000));
  elastic.reset_limit = options.reset_limit;
  if (!options.cooldown_s.empty()) {
    elastic.least_cooldown_ms = int64_t{1000} * options.cooldown_s[0];
    elastic.most_cooldown_ms = int64_t{1000} * options.cooldown_s[1];
  }
  return elastic;
}

ElasticPlan MakeElasticPlan(const RunOptions& options, const RunEnvironment& environment, const std::string& directory,
                            JobLink* link) {
  ElasticPlan elastic;
  elastic.staff.first = options.workers;
  elastic.staff.most = options.max_workers;
  elastic.hosts = ElasticHosts(options);
  if (!options.discovery.empty()) {
    HostDiscovery::Plan discovery;
    discovery.command = options.discovery;
    discovery.default_slots = std::max(1, options.slots_per_host);
    discovery.environment = environment.variables;
    elastic.discovery = std::move(discovery);
  }
  elastic.own_name = OwnHostName();
  elastic.names_hosts = UsesOtherHosts(options) || elastic.hosts.size() > 1;
  if (options.elastic_timeout_s > 0) elastic.shortage_limit = absl::Seconds(options.elastic_timeout_s);
  elastic.outlives_launcher = !options.coordinator.empty();
  elastic.private_directory = directory;
  elastic.least = options.min_workers;
  if (options.lost_limit_s > 0) elastic.lost_limit = absl::Seconds(options.lost_limit_s);
  elastic.link = link;
  return elastic;
}

absl::StatusOr<CoordinatorSession> OpenSession(const RunOptions& options, const WorkerSettings& settings) {
  absl::StatusOr<CoordinatorAddress> where = ReadCoordinatorAddress(
      {settings.coordinator, settings.token_file, settings.ca_file, options.cert_file, options.key_file, "", ""});
  if (!where.ok()) return where.status();
  return CoordinatorSession::Open(*std::move(where));
}

absl::Status AddOtherHosts(const RunOptions& options, const RunEnvironment& environment, const WorkerSettings& settings,
                           const OwnCoordinator* own, LaunchPlan* plan) {
  if (options.start_timeout_s > 0) plan->reach_limit = absl::Seconds(options.start_timeout_s);
  absl::StatusOr<SshOptions> ssh = MakeSshOptions(options, environment, plan->reach_limit);
  if (!ssh.ok()) return ssh.status();
  plan->ssh = *std::move(ssh);
  AgentOrder& order = plan->order;
  absl::StatusOr<std::string> directory = WorkingDirectory();
  if (!directory.ok()) return directory.status();
  order.set_directory(*std::move(directory));
  *order.mutable_arguments() = {options.command.begin(), options.command.end()};
  std::vector<std::string> variables = TravellingVariables(environment.variables, options.exported);
  // Workers there have terminals where the launcher has one.
  const std::string terminal = ValueOf(environment.variables, "TERM");
  if (!terminal.empty()) variables = OverlayVariables(variables, {absl::StrCat("TERM=", terminal)});
  variables = OverlayVariables(variables, MakeElasticSettings(options).Variables());
  if (options.horovod.drop_in) variables = OverlayVariables(variables, {"FARANDOLE_HOROVOD=1"});
  *order.mutable_environment() = {variables.begin(), variables.end()};
  order.set_is_elastic(options.is_elastic());
  // A coordinator that the launcher runs itself ends with the launcher, and the job with it.
  order.set_outlives_launcher(options.is_elastic() && own == nullptr);
  order.set_first_index(static_cast<uint32_t>(settings.first_index));
  order.set_size(static_cast<uint32_t>(settings.size));
  SetShares(options.shares, &order);
  order.set_job(settings.job);
  order.set_join_timeout_ms(static_cast<uint64_t>(settings.join_timeout_ms));
  absl::StatusOr<std::string> token = ReadFile(settings.token_file, "--token-file");
  if (!token.ok()) return token.status();
  order.set_token(std::string(absl::StripAsciiWhitespace(*token)));
  if (own != nullptr) {
    const std::vector<std::string>& addresses = own->remote_addresses();
    *order.mutable_coordinators() = {addresses.begin(), addresses.end()};
    order.set_ca_pem(own->ca_pem());
    return absl::OkStatus();
  }
  order.add_coordinators(settings.coordinator);
  if (settings.ca_file.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> ca = ReadFile(settings.ca_file, "--ca");
  if (!ca.ok()) return ca.status();
  order.set_ca_pem(*std::move(ca));
  return absl::OkStatus();
}

void SaySettings(const RunOptions& options, const WorkerSettings& settings, const OwnCoordinator* own) {
  Say(options, absl::StrCat("job '", settings.job, "', ", settings.size, " workers, coordinator ", settings.coordinator,
                            own == nullptr ? "" : " (in this process)", settings.ca_file.empty() ? "" : " with TLS",
                            settings.token_file.empty() ? ", certificate in " : ", token in ",
                            settings.token_file.empty() ? options.cert_file : settings.token_file));
  if (own != nullptr) {
    Say(options, absl::StrCat("state and checkpoint catalogue in ", own->state_directory(), ", metrics at http://",
                              own->http_address(), "/metrics"));
  }
  if (!options.output_directory.empty())
    Say(options, absl::StrCat("output also in ", options.output_directory, "/rank.*"));
  const std::map<std::string, std::string> threads = settings.ThreadVariables();
  if (!threads.empty() && WorkersHere(options) > 0) {
    Say(options,
        absl::StrCat(absl::StrJoin(threads, " and ", absl::PairFormatter("=")), " for each worker: ", settings.cores,
                     " cores for ", settings.size_here, " workers; set it yourself to change that"));
  }
}

int Refuse(const RunOptions& options, const absl::Status& status) {
  Say(options, status.message());
  return Launch::ExitCodeOf(status);
}

// The settings of this host's workers, for any coordinator.
WorkerSettings MakeSettings(const RunOptions& options, const RunEnvironment& environment) {
  WorkerSettings settings;
  settings.inherited =
      OverlayVariables(environment.variables, TravellingVariables(environment.variables, options.exported));
  settings.size = options.workers;
  settings.size_here = std::max(1, WorkersHere(options));
  settings.join_timeout_ms = std::lround(std::ceil(options.start_timeout_s * 1000));
  settings.cores = UsableCores();
  settings.is_elastic = options.is_elastic();
  settings.nccl_interfaces = NcclInterfaces(settings.inherited, ListInterfaceAddresses);
  settings.host = NameHere(options);
  settings.shares = options.shares;
  if (settings.shares.empty()) settings.shares.push_back({settings.host, 0, options.workers, true});
  return settings;
}

void UseShared(const RunOptions& options, WorkerSettings* settings) {
  settings->coordinator = options.coordinator;
  settings->token_file = options.token_file;
  settings->ca_file = options.ca_file;
  settings->job = options.job.empty() ? DefaultJobName(options.command) : options.job;
}

absl::Duration PatienceOf(const RunOptions& options) {
  return options.start_timeout_s > 0 ? absl::Seconds(options.start_timeout_s) : kCoordinatorPatience;
}

// A launch's words while it has no answer, or waits in the queue: each of them once.
class ClaimWords {
 public:
  ClaimWords(const RunOptions& options, std::string coordinator, std::string job, absl::Duration patience)
      : options_(options), coordinator_(std::move(coordinator)), job_(std::move(job)), patience_(patience) {}

  void SayIfSilent() {
    if (is_told_ || SteadyNow() < silent_at_) return;
    is_told_ = true;
    Say(options_, absl::StrCat("coordinator ", coordinator_, " does not answer yet; the launch waits for it for up to ",
                               absl::FormatDuration(patience_)));
  }
  // The coordinator may hold its next answer.
  void SayPlace(const v1::QueuePlace& place) {
    is_told_ = false;
    silent_at_ = SteadyNow() + kSilentInQueue;
    if (!queued_at_.has_value()) queued_at_ = SteadyNow();
    const std::string text = absl::StrCat("place ", place.position(), " of ", place.length(), ": ", place.reason());
    if (std::exchange(place_, text) != text) Say(options_, absl::StrCat("job '", job_, "' waits in the queue, ", text));
  }
  void SayStart() const {
    if (!queued_at_.has_value()) return;
    const absl::Duration waited = absl::Trunc(SteadyNow() - *queued_at_, absl::Seconds(1));
    Say(options_, absl::StrCat("job '", job_, "' starts, after ", absl::FormatDuration(waited), " in the queue"));
  }

 private:
  const RunOptions& options_;
  const std::string coordinator_;
  const std::string job_;
  const absl::Duration patience_;
  absl::Time silent_at_ = SteadyNow() + kUntold;
  bool is_told_ = false;
  std::optional<absl::Time> queued_at_;
  std::string place_;
};

// Takes the job's name for this launch, and gives its workers the credential of the run in place of the user's token:
// in a file of the coordinator's own state, or in `directory`. Null: a coordinator of an earlier version knows neither.
absl::StatusOr<std::unique_ptr<RunClaim>> Claim(const RunOptions& options, const RunEnvironment& environment,
                                                const std::string& directory, EarlySignals* signals,
                                                OwnCoordinator* own, WorkerSettings* settings) {
  absl::StatusOr<CoordinatorSession> session = OpenSession(options, *settings);
  if (!session.ok()) return session.status();
  v1::CreateJobRequest request;
  request.set_job(settings->job);
  const std::string user = ValueOf(environment.variables, "USER");
  const std::string name = user.empty() ? absl::StrCat("user ", getuid()) : absl::CHexEscape(user.substr(0, kMostName));
  request.mutable_launch()->set_who(
      absl::StrCat(name, " on ", OwnHostName().substr(0, kMostName), " (process ", getpid(), ")"));
  const std::string parent = ValueOf(environment.variables, "TRACEPARENT");
  if (ParseTraceParent(parent).has_value()) {
    request.mutable_launch()->set_traceparent(parent);
  } else if (!parent.empty()) {
    Say(options, absl::StrCat("TRACEPARENT='", Plain(parent, 64), "' names no span, and is ignored"));
  }
  request.set_most_workers(static_cast<uint32_t>(std::max({1, options.workers, options.max_workers})));
  request.set_attach(options.attach);
  const absl::Duration patience = PatienceOf(options);
  request.set_may_wait(own == nullptr && !options.no_queue);
  request.set_priority(options.priority);
  ClaimWords words(options, settings->coordinator, settings->job, patience);
  absl::StatusOr<std::unique_ptr<RunClaim>> claim = RunClaim::Take(
      *std::move(session), std::move(request), patience,
      [&] {
        words.SayIfSilent();
        return signals->HasEnd();
      },
      [&](const v1::QueuePlace& place) { words.SayPlace(place); });
  if (claim.ok()) words.SayStart();
  if (absl::IsUnimplemented(claim.status())) {
    Say(options, absl::StrCat("coordinator ", settings->coordinator, " is of an earlier version, which knows no ",
                              "launches: the workers use the token in ", settings->token_file));
    return nullptr;
  }
  if (!claim.ok()) return claim.status();
  settings->token_file = own != nullptr ? own->credential_file() : absl::StrCat(directory, "/token");
  const absl::Status written = WritePrivateFile(settings->token_file, absl::StrCat((*claim)->token(), "\n"));
  if (!written.ok()) return written;
  return claim;
}

// The launch index of worker 0. Launch indices are never given twice in a job: a launch that takes part in another's
// run, or may do so, takes a range of its own, at random.
int FindFirstIndex(const RunClaim* claim) {
  if (claim != nullptr && claim->is_own()) return 0;
  std::random_device source;
  return kIndexRange * std::uniform_int_distribution<int>(1, kIndexRanges - 1)(source);
}

// The settings of an elastic launch's workers, if it is one. `claim` as Claim returns it.
void MakeElastic(const RunOptions& options, const RunClaim* claim, WorkerSettings* settings) {
  if (!options.is_elastic()) return;
  settings->inherited = OverlayVariables(settings->inherited, MakeElasticSettings(options).Variables());
  settings->first_index = FindFirstIndex(claim);
}

Progress ProgressOf(const std::string& name) {
  if (name == "all") return Progress::kAll;
  return name == "none" ? Progress::kNone : Progress::kFirst;
}

// `directory`: for the workers' credential, where the coordinator is another process.
int RunHere(const RunOptions& options, const RunEnvironment& environment, const std::string& executable,
            const std::string& directory, const GuardLink& guard) {
  WorkerSettings settings = MakeSettings(options, environment);
  if (options.horovod.drop_in) {
    const absl::StatusOr<std::string> drop_in = FindDropIn(OwnProgram());
    if (!drop_in.ok()) return Refuse(options, drop_in.status());
    settings.drop_in = *drop_in;
  }
  std::unique_ptr<OwnCoordinator> own;
  if (options.coordinator.empty()) {
    absl::StatusOr<std::unique_ptr<OwnCoordinator>> started =
        OwnCoordinator::Start(options, environment, UsesOtherHosts(options));
    if (!started.ok()) {
      Say(options, started.status().message());
      return 1;
    }
    own = *std::move(started);
    settings.coordinator = own->address();
    settings.token_file = own->token_file();
    settings.ca_file = own->ca_file();
    settings.job = own->job();
  } else {
    UseShared(options, &settings);
  }
  if (options.verbose) SaySettings(options, settings, own.get());
  if (!options.http.empty() && own != nullptr) {
    Say(options, absl::StrCat("dashboard at http://", own->http_address(), "/, token in ", settings.token_file));
  }
  absl::StatusOr<CoordinatorSession> session = own == nullptr ? OpenSession(options, settings) : own->TakeSession();
  if (!session.ok()) return Refuse(options, session.status());
  EarlySignals signals(guard);
  absl::StatusOr<std::unique_ptr<RunClaim>> claim =
      Claim(options, environment, directory, &signals, own.get(), &settings);
  if (signals.HasEnd()) return 128 + signals.end();
  if (!claim.ok()) return Refuse(options, claim.status());
  MakeElastic(options, claim->get(), &settings);
  JobReporter reporter(*std::move(session), settings.job, settings.first_index, own != nullptr);
  LaunchPlan plan;
  plan.program = options.program;
  if (UsesOtherHosts(options)) {
    const absl::Status added = AddOtherHosts(options, environment, settings, own.get(), &plan);
    if (!added.ok()) return Refuse(options, added);
  }
  plan.command.executable = executable;
  plan.command.arguments = options.command;
  plan.command.environment = [&settings](int worker, int slot, int local_size) {
    return settings.Environment(worker, slot, local_size);
  };
  plan.command.ends_groups = options.is_elastic();
  if (options.is_elastic()) plan.elastic = MakeElasticPlan(options, environment, directory, &reporter);
  plan.link = &reporter;
  plan.workers = options.workers;
  plan.shares = options.shares;
  plan.output_directory = options.output_directory;
  plan.verbose = options.verbose;
  plan.progress = ProgressOf(options.progress);
  const std::string terminal = ValueOf(environment.variables, "TERM");
  plan.is_terminal_dumb = terminal.empty() || terminal == "dumb";
  plan.prefix_time = options.horovod.prefix_time;
  plan.guard = guard;
  const absl::StatusOr<int> code = Launch(std::move(plan)).Run();
  claim->reset();
  // They end with this process.
  if (own != nullptr) {
    for (const std::string& line : reporter.KeepTimelines(own->state_directory())) Say(options, line);
  }
  for (const std::string& line : reporter.SumUp()) Say(options, line);
  if (own != nullptr) own->Drain(kDrainGrace);
  return code.ok() ? *code : Refuse(options, code.status());
}

absl::Status CheckReadable(const std::string& path, absl::string_view flag) {
  if (path.empty() || access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, " cannot be read: ", strerror(errno)));
}

}  // namespace

int RunJob(const RunOptions& options, const RunEnvironment& environment) {
  std::string executable;
  if (WorkersHere(options) > 0) {
    absl::StatusOr<std::string> found = FindExecutable(options.command[0], environment.path);
    // A script may not name this host.
    if (!found.ok() && options.discovery.empty()) return Refuse(options, found.status());
    executable = found.ok() ? *std::move(found) : options.command[0];
  }
  absl::Status readable = CheckReadable(options.token_file, "--token-file");
  readable.Update(CheckReadable(options.ca_file, "--ca"));
  readable.Update(CheckReadable(options.cert_file, "--cert"));
  readable.Update(CheckReadable(options.key_file, "--key"));
  if (!readable.ok()) return Refuse(options, readable);
  if (options.coordinator.empty()) {
    return RunGuarded(options.program,
                      [&](const GuardLink& guard) { return RunHere(options, environment, executable, "", guard); });
  }
  const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make(environment.temporary);
  if (!directory.ok()) return Refuse(options, directory.status());
  return RunGuarded(options.program, [&](const GuardLink& guard) {
    const int code = RunHere(options, environment, executable, directory->path(), guard);
    // The guard does so as well; it may have been killed.
    RemovePrivateDirectory(directory->path());
    return code;
  });
}

}  // namespace farandole::launcher
