#include "deploy/cli/serve_options.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

using O = ServeOptions;

constexpr uint64_t kDayMs = 86'400'000;

constexpr ServeSetting kSettings[] = {
    {"--listen", "FARANDOLE_LISTEN", "HOST:PORT", "127.0.0.1:7070",
     "Where workers reach the coordinator; beyond loopback only with TLS; port 0 takes a free one", &O::listen},
    {"--state-dir", "FARANDOLE_STATE_DIR", "DIR", "",
     "Where jobs, tenants and the start token are kept; by default $XDG_STATE_HOME/farandole/serve "
     "(~/.local/state/farandole/serve)",
     &O::state_dir},
    {"--http", "FARANDOLE_HTTP", "HOST:PORT", "",
     "Where /healthz and /metrics are served, on loopback; by default nowhere", &O::http},
    {"--tls-cert", "FARANDOLE_TLS_CERT", "FILE", "", "Certificate chain, PEM", &O::tls_cert},
    {"--tls-key", "FARANDOLE_TLS_KEY", "FILE", "", "Private key of the certificate, PEM", &O::tls_key},
    {"--log-level", "FARANDOLE_LOG_LEVEL", "debug|info|warning|error", "info", "Least level of the lines on stderr",
     &O::log_level},
    {"--job-loops", "FARANDOLE_JOB_LOOPS", "threads", "2", "Threads that decide about jobs", nullptr, &O::job_loops, 1,
     64},
    {"--heartbeat-interval-ms", "FARANDOLE_HEARTBEAT_INTERVAL_MS", "ms", "500", "How often a worker must be heard of",
     nullptr, &O::heartbeat_interval_ms, 10, kDayMs},
    {"--silence-limit-ms", "FARANDOLE_SILENCE_LIMIT_MS", "ms", "3000", "Silence after which a worker is lost", nullptr,
     &O::silence_limit_ms, 20, kDayMs},
    {"--reattach-window-ms", "FARANDOLE_REATTACH_WINDOW_MS", "ms", "30000",
     "How long a restarted coordinator waits for the workers of a running job", nullptr, &O::reattach_window_ms, 1,
     kDayMs},
    {"--max-workers", "FARANDOLE_MAX_WORKERS", "workers", "4096", "Most workers of one job", nullptr, &O::max_workers,
     1, 65536},
    {"--max-slots", "FARANDOLE_MAX_SLOTS", "slots", "4096", "Most tensor names that one epoch knows at a time", nullptr,
     &O::max_slots, 1, 65536},
    {"--max-groups", "FARANDOLE_MAX_GROUPS", "groups", "1024", "Most groups of one epoch", nullptr, &O::max_groups, 1,
     4096},
    {"--drain-grace-ms", "FARANDOLE_DRAIN_GRACE_MS", "ms", "20000",
     "How long SIGTERM and SIGINT let jobs go on before their streams are closed; a second signal ends it", nullptr,
     &O::drain_grace_ms, 0, kDayMs},
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The XDG base directory specification: a relative path counts as none.
absl::StatusOr<std::string> DefaultStateDirectory() {
  const std::string state_home = Variable("XDG_STATE_HOME");
  if (absl::StartsWith(state_home, "/")) return absl::StrCat(state_home, "/farandole/serve");
  const std::string home = Variable("HOME");
  if (absl::StartsWith(home, "/")) return absl::StrCat(home, "/.local/state/farandole/serve");
  return absl::FailedPreconditionError(
      "there is no place for the coordinator's state: neither XDG_STATE_HOME nor HOME is set; name a --state-dir");
}

}  // namespace

absl::Span<const ServeSetting> ServeSettings() { return kSettings; }

void AddServeOptions(CLI::App* command, ServeOptions* options) {
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

absl::StatusOr<CoordinatorOptions> ToCoordinatorOptions(const ServeOptions& options) {
  if (options.silence_limit_ms < 2 * options.heartbeat_interval_ms) {
    return absl::InvalidArgumentError(
        absl::StrCat("--silence-limit-ms ", options.silence_limit_ms, " is less than twice --heartbeat-interval-ms ",
                     options.heartbeat_interval_ms, ": live workers would be taken for dead"));
  }
  CoordinatorOptions coordinator;
  coordinator.state_dir = options.state_dir;
  if (coordinator.state_dir.empty()) {
    const absl::StatusOr<std::string> directory = DefaultStateDirectory();
    if (!directory.ok()) return directory.status();
    coordinator.state_dir = *directory;
  }
  coordinator.listen = options.listen;
  coordinator.http = options.http;
  coordinator.tls_cert = options.tls_cert;
  coordinator.tls_key = options.tls_key;
  coordinator.job_loops = options.job_loops;
  coordinator.job.heartbeat_interval = absl::Milliseconds(options.heartbeat_interval_ms);
  coordinator.job.silence_limit = absl::Milliseconds(options.silence_limit_ms);
  coordinator.job.reattach_window = absl::Milliseconds(options.reattach_window_ms);
  coordinator.job.max_workers = static_cast<uint32_t>(options.max_workers);
  coordinator.job.max_slots = static_cast<uint32_t>(options.max_slots);
  coordinator.job.max_groups = static_cast<uint32_t>(options.max_groups);
  return coordinator;
}

}  // namespace farandole
