#ifndef FARANDOLE_WORKER_LAUNCH_OPTIONS_H_
#define FARANDOLE_WORKER_LAUNCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log_record.h"
#include "base/tls/certificate.h"
#include "worker/farandole.h"
#include "worker/launch/foreign_launch.h"

namespace farandole {

// Settings of a worker. worker/launch/options.cc has the table of their names, defaults and units, and is the library's
// only reader of the environment.
struct WorkerOptions {
  std::string coordinator;  // HOST:PORT; "": a job of size 1
  std::string token_file;
  std::string token;
  std::string ca_file;  // "": no TLS
  std::string ca_pem;
  // The files of the certificate, and its key, by which the worker proves itself; "": by the token alone.
  std::string cert_file;
  std::string key_file;
  Certificate certificate;
  // As CoordinatorAddress has it.
  std::string coordinator_users;
  std::string job;
  // Rank 0's warning, one sentence; "": none.
  std::string warning;
  // Path of `farandole`; "": what PATH finds.
  std::string program;
  std::string path;
  // Where temporary files go.
  std::string temporary;
  // XDG_STATE_HOME, otherwise HOME/.local/state; "" where neither is set.
  std::string state_home;
  // Set where no coordinator is named, and plain mpirun or srun has started several processes: they are to find one
  // (FindEmbeddedCoordinator), `size` and `launch_index` are the launcher's, and `job` may be "".
  std::optional<ForeignLaunch> launch;
  // Set where plain mpirun or srun has started several processes, whichever coordinator they use.
  std::optional<LaunchedProcesses> launched;
  int size = 1;
  int launch_index = 0;
  // As v1::Member.local_slot.
  int local_slot = 0;
  // An elastic job's fewest and most workers; 0: the job is not elastic. The next fields are as in v1::Elastic.
  int min_size = 0;
  int max_size = 0;
  absl::Duration join_window;
  absl::Duration shortage_limit;
  int reset_limit = 0;
  absl::Duration least_cooldown;
  absl::Duration most_cooldown;
  absl::Duration join_timeout;
  absl::Duration stall_warning;
  // 0: none.
  absl::Duration stall_limit;
  std::string transport;
  bool encrypts = false;  // what ranks of different hosts send each other
  std::vector<std::string> network_interfaces;
  std::string nccl_library;  // "": what the process or the system has
  bool nccl_splits = false;  // communicators of process sets are made with that of all ranks
  bool nccl_blocks = false;  // NCCL's own setting, which ours cannot override
  std::string nccl_ras;      // HOST:PORT at which NCCL's RAS is to be asked; "": it is off
  std::string host_id;
  int64_t fusion_bytes = 0;
  absl::Duration outage_limit;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::string timeline;  // "": none
  std::string profiler;  // the library that NVTX's headers load; "": none
  bool timeline_marks_cycles = false;
  std::string flight;         // as FlightMemory::path; "": none
  bool native_stacks = true;  // `farandole stacks` reads them for evidence

  bool is_elastic() const { return max_size != 0; }
};

// One row of the table, for people.
struct WorkerSetting {
  std::string variable;
  // "" for none.
  std::string default_value;
  // "1 to 65536"; "" if the meaning says it.
  std::string range;
  std::string meaning;
};

// All settings.
std::vector<WorkerSetting> WorkerSettings();

// The token in a file.
//   UNAUTHENTICATED: there is no file, or it cannot be read
absl::StatusOr<std::string> ReadToken(const std::string& path);

// The `nccl_...` of the settings alone, which can be read even if others are wrong.
WorkerOptions ReadNcclSettings();

// The caller's settings, completed by the environment and the defaults. The token, the CA and the certificate are read
// from their files.
//   INVALID_ARGUMENT: a setting is not valid; names it, its value and what is allowed
//   UNAUTHENTICATED: a coordinator is named, and there is neither a token file nor a certificate, or a file cannot be
//                    read or used
absl::StatusOr<WorkerOptions> ReadWorkerOptions(const farandole_init_options* given);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_OPTIONS_H_
