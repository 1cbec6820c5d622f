#ifndef FARANDOLE_DEPLOY_CLI_SERVE_OPTIONS_H_
#define FARANDOLE_DEPLOY_CLI_SERVE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/state_home.h"
#include "server/coordinator.h"

namespace farandole {

// The settings of `farandole serve`, as the command line, the environment and a file give them, in this order.
struct ServeOptions {
  // The file; "": none.
  std::string config;
  // Print the settings instead of serving.
  bool print_config = false;
  std::string listen;
  std::string state_dir;
  std::string http;
  std::string https;
  std::string http_host;
  std::string tls_cert;
  std::string tls_key;
  std::string client_ca;
  std::string trust_domain;
  std::string identity_file;
  std::string otlp_endpoint;
  std::string log_level;
  std::string log_format;
  uint64_t job_loops = 0;
  uint64_t heartbeat_interval_ms = 0;
  uint64_t silence_limit_ms = 0;
  uint64_t reattach_window_ms = 0;
  uint64_t max_workers = 0;
  uint64_t max_slots = 0;
  uint64_t max_groups = 0;
  uint64_t keep_ended_jobs = 0;
  uint64_t keep_ended_days = 0;
  uint64_t tenant_queued_mib = 0;
  uint64_t tenant_kept_mib = 0;
  uint64_t queued_mib = 0;
  uint64_t kept_mib = 0;
  uint64_t tenant_mib_per_s = 0;
  uint64_t drain_grace_ms = 0;
};

// One row of the table of settings. A setting is a text or a number within bounds.
struct ServeSetting {
  const char* flag;
  // The environment variable that says the same; the flag goes first.
  const char* variable;
  // The kind of value: "HOST:PORT", "ms", "threads".
  const char* unit;
  const char* default_value;
  const char* meaning;
  std::string ServeOptions::*text = nullptr;
  uint64_t ServeOptions::*number = nullptr;
  uint64_t least = 0;
  uint64_t most = 0;

  // Its key in a file: the flag without its dashes.
  std::string Key() const { return flag + 2; }
};

// All settings, in the order of the help.
absl::Span<const ServeSetting> ServeSettings();

// Adds the settings to `command`, with their defaults, and --config and --print-config; `options` outlives it. The
// environment is read here, and nowhere else.
void AddServeOptions(CLI::App* command, ServeOptions* options);

// Takes over from the file options->config what `command`, which has been parsed, was not told by flag or environment.
//   INVALID_ARGUMENT  "FILE:LINE: KEY: ..." tells what is wrong, and for an unknown key the nearest one
//   others            the file cannot be read (named)
absl::Status ApplyConfigFile(const CLI::App& command, ServeOptions* options);

// All settings as a file for --config, each with its place of origin.
std::string ShowServeOptions(const CLI::App& command, const ServeOptions& options);

// Below which the state lies where no --state-dir is given.
StateHome DefaultStateHome();

// The coordinator's options of these settings.
//   INVALID_ARGUMENT     two settings contradict each other (both are named)
absl::StatusOr<CoordinatorOptions> ToCoordinatorOptions(const ServeOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_SERVE_OPTIONS_H_
