#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/worker_terminals.h"

namespace farandole::launcher {

// The messages of the frames (agent_frames.h): plain data, written and read here only. Reading refuses whatever is not
// exactly what writing gives, with INVALID_ARGUMENT and a sentence: too short, too long, a number out of bounds, a NUL
// in what goes to the system. Pure.

// kHello. Every protocol's begins like this.
struct AgentHello {
  uint16_t protocol = 0;
  std::string version;
};

// kOrder: what an agent is to run.
struct AgentOrder {
  std::vector<std::string> arguments;
  // "NAME=value": they replace variables of the agent's own environment.
  std::vector<std::string> environment;
  std::string directory;
  // As the launcher names it.
  std::string host;
  // All hosts of the job, by name and number of workers; none: they come and go.
  std::vector<HostShare> shares;
  // How many workers share this host's cores.
  uint32_t size_here = 0;
  // Of the whole job.
  uint32_t size = 0;
  // Worker N of the launch has the launch index first_index + N.
  uint32_t first_index = 0;
  // Workers may fail while others go on (LocalWorkerHost::Command::ends_groups).
  bool is_elastic = false;
  // Where the launcher is lost, the workers go on without it, and what they print is dropped.
  bool outlives_launcher = false;
  std::string job;
  uint64_t join_timeout_ms = 0;
  // HOST:PORT each: ways to one coordinator, of which the agent takes one that works. None: the job has none.
  std::vector<std::string> coordinators;
  // "" for a coordinator without TLS.
  std::string ca_pem;
  std::string token;
};

// kReady.
struct AgentReadiness {
  // As the machine names itself.
  std::string hostname;
};

// kGo: the workers to start, by their numbers in the launch.
struct AgentStaff {
  std::vector<int> workers;
};

// kSignal.
struct AgentSignal {
  uint8_t signal = 0;
  // To the workers' process groups instead of the workers alone.
  bool whole_group = false;
  // -1: to all of them.
  int worker = -1;
};

// kTerminals is a WorkerTerminals.

// kRefused: why the workers cannot be started; nothing runs.
struct AgentRefusal {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string sentence;
};

// kStarted.
struct AgentStart {
  uint32_t worker = 0;
  uint32_t pid = 0;
};

// kOutput. No bytes: the stream has ended. `bytes` is borrowed from the message.
struct AgentOutput {
  uint32_t worker = 0;
  bool is_stderr = false;
  absl::string_view bytes;
};

// kEnded.
struct AgentEnd {
  uint32_t worker = 0;
  WorkerEnd end;
};

std::string Encode(const AgentHello& hello);
std::string Encode(const AgentOrder& order);
std::string Encode(const AgentReadiness& readiness);
std::string Encode(const AgentStaff& staff);
std::string Encode(const AgentSignal& signal);
std::string Encode(const WorkerTerminals& terminals);
std::string Encode(const AgentRefusal& refusal);
std::string Encode(const AgentStart& start);
std::string Encode(const AgentOutput& output);
std::string Encode(const AgentEnd& end);
// kTaken.
std::string EncodeTaken(uint32_t bytes);

absl::StatusOr<AgentHello> DecodeHello(absl::string_view message);
absl::StatusOr<AgentOrder> DecodeOrder(absl::string_view message);
absl::StatusOr<AgentReadiness> DecodeReadiness(absl::string_view message);
absl::StatusOr<AgentStaff> DecodeStaff(absl::string_view message);
absl::StatusOr<AgentSignal> DecodeSignal(absl::string_view message);
absl::StatusOr<WorkerTerminals> DecodeTerminals(absl::string_view message);
absl::StatusOr<AgentRefusal> DecodeRefusal(absl::string_view message);
absl::StatusOr<AgentStart> DecodeStart(absl::string_view message);
absl::StatusOr<AgentOutput> DecodeOutput(absl::string_view message);
absl::StatusOr<AgentEnd> DecodeEnd(absl::string_view message);
absl::StatusOr<uint32_t> DecodeTaken(absl::string_view message);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_
