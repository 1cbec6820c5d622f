#ifndef FARANDOLE_SDK_CPP_FARANDOLE_OPTIONS_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_OPTIONS_H_

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "farandole/c_api.h"

namespace farandole {
inline namespace sdk {

/// Settings of Init(). A field that is left as it is takes the value of the environment variable that
/// worker/farandole.h names beside it, and where that is not set either, the default; a launcher sets them all.
struct Options {
  /// "HOST:PORT" of the coordinator. Without one the process is a job of size 1.
  std::string coordinator;
  std::string token_file;
  std::string ca_file;
  /// The certificate, and its key, by which the worker proves itself to the coordinator where it has no token.
  std::string cert_file;
  std::string key_file;
  std::string job;
  std::string transport;
  /// Path of `farandole`, of which rank 0 under plain mpirun or srun starts the job's coordinator.
  std::string program;
  int size = 0;
  /// Orders the ranks; -1: not set.
  int launch_index = -1;
  /// Fewest and most workers of an epoch: either makes the job elastic.
  int min_size = 0;
  int max_size = 0;
  int reset_limit = 0;
  int64_t fusion_threshold_bytes = 0;
  std::chrono::milliseconds join_timeout{0};
  std::chrono::milliseconds stall_warning{0};
  std::chrono::milliseconds outage_limit{0};
  std::chrono::milliseconds join_window{0};
  std::chrono::milliseconds shortage_limit{0};
  std::chrono::milliseconds least_cooldown{0};
  std::chrono::milliseconds most_cooldown{0};
  /// Launch indices of those workers that are to be a job of their own; empty: all.
  std::vector<int32_t> members;
  /// Asked about every 100 ms while a call waits; a value other than 0 has it give up with ABORTED. May be null.
  int (*interrupted)() = nullptr;
};

/// The same for the C interface, which points into `options`.
inline farandole_init_options ForC(const Options& options) {
  farandole_init_options made = {};
  made.struct_bytes = sizeof(made);
  const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
  made.coordinator = text(options.coordinator);
  made.token_file = text(options.token_file);
  made.ca_file = text(options.ca_file);
  made.cert_file = text(options.cert_file);
  made.key_file = text(options.key_file);
  made.job = text(options.job);
  made.transport = text(options.transport);
  made.program = text(options.program);
  made.size = options.size;
  made.launch_index = options.launch_index + 1;
  made.min_size = options.min_size;
  made.max_size = options.max_size;
  made.reset_limit = options.reset_limit;
  made.fusion_threshold_bytes = options.fusion_threshold_bytes;
  made.join_timeout_ms = options.join_timeout.count();
  made.stall_warning_ms = options.stall_warning.count();
  made.outage_limit_ms = options.outage_limit.count();
  made.join_window_ms = options.join_window.count();
  made.shortage_limit_ms = options.shortage_limit.count();
  made.least_cooldown_ms = options.least_cooldown.count();
  made.most_cooldown_ms = options.most_cooldown.count();
  made.members = options.members.empty() ? nullptr : options.members.data();
  made.member_count = static_cast<int32_t>(options.members.size());
  return made;
}

/// The environment variables of the C++ SDK itself, which are Python's as well.
struct LibraryOptions {
  /// FARANDOLE_LIBRARY: path of the worker library. Without it the dynamic loader looks for libfarandole.so: in the
  /// program's RUNPATH, which the build sets (docs/cpp.md), in LD_LIBRARY_PATH and in the system's folders.
  std::string path = "libfarandole.so";
  /// RTLD_DEEPBIND, unless FARANDOLE_DEEPBIND is 0, as for AddressSanitizer, which refuses it.
  int deepbind = RTLD_DEEPBIND;

  static LibraryOptions FromEnvironment() {
    LibraryOptions read;
    if (const char* path = std::getenv("FARANDOLE_LIBRARY"); path != nullptr && *path != '\0') read.path = path;
    if (const char* wish = std::getenv("FARANDOLE_DEEPBIND"); wish != nullptr && std::string(wish) == "0") {
      read.deepbind = 0;
    }
    return read;
  }
};

/// FARANDOLE_DEPART_GRACE_MS: how long an elastic worker has between SIGTERM and its end, which people are told; 30 s
/// where it is not set, or no number.
inline std::chrono::milliseconds DepartGrace() {
  const char* const text = std::getenv("FARANDOLE_DEPART_GRACE_MS");
  char* end = nullptr;
  const int64_t number = text == nullptr ? 0 : std::strtoll(text, &end, 10);
  const bool is_number = text != nullptr && end != text && *end == '\0' && number >= 0;
  return std::chrono::milliseconds(is_number ? number : 30'000);
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_OPTIONS_H_
