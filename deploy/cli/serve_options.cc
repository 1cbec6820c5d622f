#include "deploy/cli/serve_options.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log_record.h"
#include "base/nearest_name.h"
#include "deploy/cli/config_file.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "server/spans/otlp_variables.h"

namespace farandole {
namespace {

using O = ServeOptions;

constexpr uint64_t kDayMs = 86'400'000;
constexpr uint64_t kMostMib = 1 << 20;
// Workers send signs of life so often in any case (worker/member/coordinator_link.cc).
constexpr uint64_t kLongestBeatMs = 500;

constexpr ServeSetting kSettings[] = {
    {"--listen", "FARANDOLE_LISTEN", "HOST:PORT", "127.0.0.1:7070",
     "Where workers reach the coordinator; beyond loopback only with TLS; port 0 takes a free one", &O::listen},
    {"--state-dir", "FARANDOLE_STATE_DIR", "DIR", "",
     "Where jobs, tenants and the start token are kept; by default $XDG_STATE_HOME/farandole/serve "
     "(~/.local/state/farandole/serve)",
     &O::state_dir},
    {"--http", "FARANDOLE_HTTP", "HOST:PORT", "",
     "Where the dashboard, /api/v1, /metrics and /healthz are served, on loopback (auto: on any free port); by default "
     "nowhere",
     &O::http},
    {"--https", "FARANDOLE_HTTPS", "HOST:PORT", "",
     "The same by HTTPS with the certificate of --tls-cert, also beyond loopback; instead of --http", &O::https},
    {"--http-host", "FARANDOLE_HTTP_HOST", "NAME,...", "",
     "Host names by which browsers reach --http through a proxy, or --https; requests for other host names are "
     "refused, except for "
     "IP addresses and localhost",
     &O::http_host},
    {"--tls-cert", "FARANDOLE_TLS_CERT", "FILE", "",
     "Certificate chain, PEM; the coordinator looks at the file every second and takes a new one without a restart",
     &O::tls_cert},
    {"--tls-key", "FARANDOLE_TLS_KEY", "FILE", "", "Private key of the certificate, PEM; replaced with it",
     &O::tls_key},
    {"--client-ca", "FARANDOLE_CLIENT_CA", "FILE", "",
     "Authorities of clients' certificates, PEM, by which services and people prove themselves in place of a token; a "
     "new file is taken without a restart; by default no client is asked for a certificate",
     &O::client_ca},
    {"--trust-domain", "FARANDOLE_TRUST_DOMAIN", "NAME", "",
     "The trust domain of the SPIFFE IDs in clients' certificates: spiffe://NAME/tenant/TENANT/ROLE; with --client-ca",
     &O::trust_domain},
    {"--identity-file", "FARANDOLE_IDENTITY_FILE", "FILE", "",
     "Identity providers whose signed tokens are taken, and the roles of their people, YAML; by default none",
     &O::identity_file},
    {"--otlp-endpoint", "FARANDOLE_OTLP_ENDPOINT", "URL", "",
     "Collector for spans of jobs' runs, by OTLP over HTTP: they are posted to URL/v1/traces; by default that of "
     "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, or none",
     &O::otlp_endpoint},
    {"--log-level", "FARANDOLE_LOG_LEVEL", kLogLevels, "info", "Least level of the lines on stderr", &O::log_level},
    {"--log-format", "FARANDOLE_LOG_FORMAT", kLogFormats, "text",
     "How a line is written: for people, or as an object with time, level, tenant, job and sentence", &O::log_format},
    {"--job-loops", "FARANDOLE_JOB_LOOPS", "threads", "2", "Threads that decide about jobs", nullptr, &O::job_loops, 1,
     64},
    {"--heartbeat-interval-ms", "FARANDOLE_HEARTBEAT_INTERVAL_MS", "ms", "500",
     "Interval between a worker's heartbeats; more than 500 has the effect of 500", nullptr, &O::heartbeat_interval_ms,
     10, kDayMs},
    {"--silence-limit-ms", "FARANDOLE_SILENCE_LIMIT_MS", "ms", "2500",
     "Silence after which a worker is lost, at least four such intervals", nullptr, &O::silence_limit_ms, 20, kDayMs},
    {"--reattach-window-ms", "FARANDOLE_REATTACH_WINDOW_MS", "ms", "30000",
     "How long a restarted coordinator waits for the workers of a running job", nullptr, &O::reattach_window_ms, 1,
     kDayMs},
    {"--max-workers", "FARANDOLE_MAX_WORKERS", "workers", "4096", "Most workers of one job", nullptr, &O::max_workers,
     1, 65536},
    {"--max-slots", "FARANDOLE_MAX_SLOTS", "slots", "32768", "Most tensor names that one epoch knows at a time",
     nullptr, &O::max_slots, 1024, 65536},
    {"--max-groups", "FARANDOLE_MAX_GROUPS", "groups", "1024", "Most groups of one epoch", nullptr, &O::max_groups, 1,
     4096},
    {"--keep-ended-jobs", "FARANDOLE_KEEP_ENDED_JOBS", "jobs", "10000",
     "Most ended jobs that are kept of each tenant; the oldest are deleted, their checkpoints' files are not", nullptr,
     &O::keep_ended_jobs, 0, 50'000},
    {"--keep-ended-days", "FARANDOLE_KEEP_ENDED_DAYS", "days", "30", "How long ended jobs are kept", nullptr,
     &O::keep_ended_days, 1, 36'500},
    {"--tenant-queued-mib", "FARANDOLE_TENANT_QUEUED_MIB", "MiB", "64",
     "Memory of one tenant's messages that are on their way to its jobs, and as much again of those to its workers; "
     "one job may have half of it, one worker a quarter",
     nullptr, &O::tenant_queued_mib, 8, kMostMib},
    {"--tenant-kept-mib", "FARANDOLE_TENANT_KEPT_MIB", "MiB", "256",
     "Memory of what one tenant's jobs keep: tensors that ranks wait for, measurements, timelines, reports of stalls; "
     "and twice as much for their catalogues of checkpoints; one job may have half of it",
     nullptr, &O::tenant_kept_mib, 8, kMostMib},
    {"--queued-mib", "FARANDOLE_QUEUED_MIB", "MiB", "512",
     "Memory of all tenants' messages that are on their way; those to jobs and those to workers have as much each; "
     "when it is full, those tenants feel it that have more than their equal part",
     nullptr, &O::queued_mib, 8, kMostMib},
    {"--kept-mib", "FARANDOLE_KEPT_MIB", "MiB", "2048", "Memory of what all tenants' jobs keep, likewise", nullptr,
     &O::kept_mib, 8, kMostMib},
    {"--tenant-mib-per-s", "FARANDOLE_TENANT_MIB_PER_S", "MiB", "16",
     "How fast one tenant's messages are read, in MiB a second as they lie in memory, after a burst of 32 times as "
     "much",
     nullptr, &O::tenant_mib_per_s, 1, kMostMib},
    {"--drain-grace-ms", "FARANDOLE_DRAIN_GRACE_MS", "ms", "20000",
     "How long jobs may go on after SIGTERM or SIGINT; a second signal ends this grace period at once", nullptr,
     &O::drain_grace_ms, 0, kDayMs},
};

constexpr char kConfigVariable[] = "FARANDOLE_CONFIG";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A value of the file, unless flag or environment have set it; wrong it must not be in either case.
absl::Status Apply(const ConfigEntry& entry, const CLI::App& command, ServeOptions* options) {
  const auto* setting = std::find_if(std::begin(kSettings), std::end(kSettings),
                                     [&](const ServeSetting& row) { return row.Key() == entry.key; });
  if (setting == std::end(kSettings)) {
    std::vector<std::string> keys;
    for (const ServeSetting& row : kSettings) keys.push_back(row.Key());
    const std::string nearest = NearestName(entry.key, keys);
    return absl::InvalidArgumentError(absl::StrCat(
        "no setting has this name; ", nearest.empty() ? absl::StrCat("there are ", absl::StrJoin(keys, ", "))
                                                      : absl::StrCat("did you mean ", nearest, "?")));
  }
  const bool is_given = command.get_option(setting->flag)->count() > 0;
  if (setting->text != nullptr) {
    if (!is_given) options->*setting->text = entry.value;
    return absl::OkStatus();
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(entry.value, &number) || number < setting->least || number > setting->most) {
    return absl::InvalidArgumentError(absl::StrCat("'", entry.value, "' is no whole number from ", setting->least,
                                                   " to ", setting->most, " (", setting->unit, ")"));
  }
  if (!is_given) options->*setting->number = number;
  return absl::OkStatus();
}

// Where a setting's value comes from. CLI11 does not tell flags from the environment.
std::string Origin(const ServeSetting& setting, const CLI::App& command, const ServeOptions& options,
                   const std::string& value) {
  if (command.get_option(setting.flag)->count() > 0)
    return Variable(setting.variable) == value ? setting.variable : setting.flag;
  return value == setting.default_value ? "default" : options.config;
}

}  // namespace

absl::Span<const ServeSetting> ServeSettings() { return kSettings; }

void AddServeOptions(CLI::App* command, ServeOptions* options) {
  command->add_option("--config", options->config, "Settings by name, YAML; flags and environment go before it")
      ->type_name("FILE")
      ->envname(kConfigVariable);
  command->add_flag("--print-config", options->print_config, "Print all settings and where they come from, and exit");
  for (const ServeSetting& setting : kSettings) {
    CLI::Option* option = nullptr;
    if (setting.text != nullptr) {
      options->*setting.text = setting.default_value;
      option = command->add_option(setting.flag, options->*setting.text, setting.meaning);
    } else {
      options->*setting.number = std::strtoull(setting.default_value, nullptr, 10);
      option = command->add_option(setting.flag, options->*setting.number, setting.meaning);
      option->check(CLI::Range(setting.least, setting.most));
    }
    option->type_name(setting.unit)->default_str(setting.default_value)->envname(setting.variable);
  }
}

absl::Status ApplyConfigFile(const CLI::App& command, ServeOptions* options) {
  if (options->config.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<ConfigEntry>> entries = ReadConfigFile(options->config);
  if (!entries.ok()) return entries.status();
  for (const ConfigEntry& entry : *entries) {
    if (absl::Status status = Apply(entry, command, options); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options->config, ":", entry.line, ": ", entry.key, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

std::string ShowServeOptions(const CLI::App& command, const ServeOptions& options) {
  std::vector<ConfigEntry> entries;
  std::vector<std::string> comments;
  for (const ServeSetting& setting : kSettings) {
    const std::string value = setting.text != nullptr ? options.*setting.text : absl::StrCat(options.*setting.number);
    entries.push_back({setting.Key(), value, 0});
    comments.push_back(Origin(setting, command, options, value));
  }
  return ShowConfigFile(entries, comments);
}

StateHome DefaultStateHome() {
  return FindStateHome(Variable("XDG_STATE_HOME"), Variable("HOME"), TemporaryDirectory(Variable("TMPDIR")));
}

absl::StatusOr<CoordinatorOptions> ToCoordinatorOptions(const ServeOptions& options) {
  const uint64_t interval_ms = std::min(options.heartbeat_interval_ms, kLongestBeatMs);
  if (options.silence_limit_ms < 4 * interval_ms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--silence-limit-ms ", options.silence_limit_ms, " is less than four times --heartbeat-interval-ms ",
        options.heartbeat_interval_ms, ": live workers would be taken for dead"));
  }
  CoordinatorOptions coordinator;
  coordinator.state_dir = options.state_dir;
  if (coordinator.state_dir.empty()) {
    const StateHome state_home = DefaultStateHome();
    if (state_home.path.empty()) return absl::FailedPreconditionError(state_home.remark);
    coordinator.state_dir = ServeDirectory(state_home.path);
  }
  coordinator.listen = options.listen;
  coordinator.http = options.http;
  coordinator.https = options.https;
  coordinator.http_hosts = absl::StrSplit(options.http_host, ',', absl::SkipEmpty());
  coordinator.tls_cert = options.tls_cert;
  coordinator.tls_key = options.tls_key;
  coordinator.client_ca = options.client_ca;
  coordinator.trust_domain = options.trust_domain;
  coordinator.identity_file = options.identity_file;
  absl::StatusOr<OtlpOptions> spans = ReadOtlpOptions(options.otlp_endpoint, Variable);
  if (!spans.ok()) return spans.status();
  coordinator.spans = *std::move(spans);
  coordinator.job_loops = options.job_loops;
  coordinator.job.heartbeat_interval = absl::Milliseconds(options.heartbeat_interval_ms);
  coordinator.job.silence_limit = absl::Milliseconds(options.silence_limit_ms);
  coordinator.job.reattach_window = absl::Milliseconds(options.reattach_window_ms);
  coordinator.job.max_workers = static_cast<uint32_t>(options.max_workers);
  coordinator.job.max_slots = static_cast<uint32_t>(options.max_slots);
  coordinator.job.max_groups = static_cast<uint32_t>(options.max_groups);
  coordinator.bytes.tenant_queued = static_cast<int64_t>(options.tenant_queued_mib) << 20;
  coordinator.bytes.tenant_kept = static_cast<int64_t>(options.tenant_kept_mib) << 20;
  coordinator.bytes.queued = static_cast<int64_t>(options.queued_mib) << 20;
  coordinator.bytes.tenant_rate = static_cast<int64_t>(options.tenant_mib_per_s) << 20;
  coordinator.bytes.kept = static_cast<int64_t>(options.kept_mib) << 20;
  coordinator.retention.jobs = options.keep_ended_jobs;
  coordinator.retention.age = absl::Hours(24 * options.keep_ended_days);
  return coordinator;
}

}  // namespace farandole
