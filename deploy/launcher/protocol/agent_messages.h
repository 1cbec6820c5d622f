#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/worker_terminals.h"
#include "farandole/v1/agent.pb.h"

namespace farandole::launcher {

// The messages of the frames (agent_frames.h) are those of farandole/v1/agent.proto. Pure.
using v1::AgentEnded;
using v1::AgentGo;
using v1::AgentHello;
using v1::AgentOrder;
using v1::AgentOutput;
using v1::AgentReady;
using v1::AgentRefused;
using v1::AgentSignal;
using v1::AgentStarted;
using v1::AgentTaken;
using v1::AgentTerminals;

// Reads a message of one of these types.
//   INVALID_ARGUMENT  the bytes are no such message, a value exceeds its bound, or a text that goes to the system has a
//                     NUL; the sentence says which
template <typename Message>
absl::StatusOr<Message> Decode(absl::string_view bytes);

// The messages of the launcher's own types, and back.
AgentTerminals ToMessage(const WorkerTerminals& terminals);
WorkerTerminals FromMessage(const AgentTerminals& terminals);
AgentEnded ToMessage(int worker, const WorkerEnd& end);
WorkerEnd FromMessage(const AgentEnded& ended);
// The sentence is cut where it would not fit into a frame.
AgentRefused ToMessage(const absl::Status& error);
void SetShares(const std::vector<HostShare>& shares, AgentOrder* order);
std::vector<HostShare> SharesOf(const AgentOrder& order);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_MESSAGES_H_
