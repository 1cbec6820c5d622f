#include "deploy/launcher/protocol/agent_messages.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/protocol/agent_frames.h"

namespace farandole::launcher {
namespace {

// As in proto/farandole/v1/worker.proto (JoinRequest).
constexpr uint64_t kMaxWorkers = 65536;
// Leaves room for kMaxWorkers in an int32.
constexpr uint64_t kMaxFirstIndex = 0x7fff0000 - 1;
constexpr uint64_t kMaxSignal = 64;
constexpr uint64_t kDayMs = 86'400'000;

// Checks a message's values. The first one that is wrong sticks.
class Checks {
 public:
  explicit Checks(const char* what) : what_(what) {}

  void Require(bool holds, absl::string_view otherwise) {
    if (!holds && status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("the agent's ", what_, " has ", otherwise));
    }
  }
  void AtMost(uint64_t value, uint64_t most) {
    if (value > most) Require(false, absl::StrCat("the number ", value, " where at most ", most, " is allowed"));
  }
  // A NUL would end the text where the system reads it.
  void Text(const std::string& text) { Require(text.find('\0') == std::string::npos, "a NUL in a text"); }
  const absl::Status& status() const { return status_; }

 private:
  const char* const what_;
  absl::Status status_;
};

absl::Status Check(const AgentHello& hello) {
  Checks checks("greeting");
  checks.AtMost(hello.protocol(), 0xffff);
  checks.Text(hello.version());
  return checks.status();
}

absl::Status Check(const AgentOrder& order) {
  Checks checks("order");
  checks.Require(order.arguments_size() > 0 && !order.arguments(0).empty(), "no command");
  for (const auto* texts : {&order.arguments(), &order.environment(), &order.coordinators()}) {
    for (const std::string& text : *texts) checks.Text(text);
  }
  for (const std::string& variable : order.environment()) {
    const size_t equals = variable.find('=');
    checks.Require(equals != std::string::npos && equals > 0, "a variable without a name");
  }
  for (const auto* text : {&order.directory(), &order.host(), &order.job(), &order.ca_pem(), &order.token()}) {
    checks.Text(*text);
  }
  uint64_t workers = 0;
  for (const AgentOrder::Share& share : order.shares()) {
    checks.Text(share.host());
    workers += share.workers();
  }
  checks.AtMost(workers, kMaxWorkers);
  checks.Require(order.size_here() > 0 && order.size() > 0, "no workers");
  checks.AtMost(order.size_here(), kMaxWorkers);
  checks.AtMost(order.size(), kMaxWorkers);
  checks.AtMost(order.first_index(), kMaxFirstIndex);
  checks.AtMost(order.join_timeout_ms(), kDayMs);
  return checks.status();
}

absl::Status Check(const AgentReady& ready) {
  Checks checks("readiness");
  checks.Text(ready.hostname());
  return checks.status();
}

absl::Status Check(const AgentGo& go) {
  Checks checks("staff");
  checks.Require(go.workers_size() > 0, "no workers");
  for (const uint32_t worker : go.workers()) checks.AtMost(worker, kMaxWorkers - 1);
  return checks.status();
}

absl::Status Check(const AgentSignal& signal) {
  Checks checks("signal");
  checks.Require(signal.signal() > 0, "the number 0");
  checks.AtMost(signal.signal(), kMaxSignal);
  checks.AtMost(signal.worker(), kMaxWorkers - 1);
  return checks.status();
}

absl::Status Check(const AgentTerminals& terminals) {
  Checks checks("terminals");
  for (const auto* size : {&terminals.out(), &terminals.err()}) {
    checks.AtMost(size->columns(), 0xffff);
    checks.AtMost(size->rows(), 0xffff);
  }
  return checks.status();
}

absl::Status Check(const AgentRefused& refused) {
  Checks checks("refusal");
  checks.Require(refused.code() != static_cast<uint32_t>(absl::StatusCode::kOk), "the code 0");
  checks.AtMost(refused.code(), static_cast<uint64_t>(absl::StatusCode::kUnauthenticated));
  checks.Text(refused.sentence());
  return checks.status();
}

absl::Status Check(const AgentStarted& started) {
  Checks checks("start");
  checks.AtMost(started.worker(), kMaxWorkers - 1);
  checks.AtMost(started.pid(), 0x7fffffff);
  return checks.status();
}

absl::Status Check(const AgentOutput& output) {
  Checks checks("output");
  checks.AtMost(output.worker(), kMaxWorkers - 1);
  return checks.status();
}

absl::Status Check(const AgentEnded& ended) {
  Checks checks("end");
  checks.AtMost(ended.worker(), kMaxWorkers - 1);
  checks.AtMost(ended.code(), 255);
  checks.AtMost(ended.signal(), kMaxSignal);
  checks.AtMost(ended.flight().size(), kMaxFlightBytes);
  return checks.status();
}

absl::Status Check(const AgentTaken&) { return absl::OkStatus(); }

}  // namespace

template <typename Message>
absl::StatusOr<Message> Decode(absl::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("these ", bytes.size(), " bytes are no ", Message::descriptor()->name()));
  }
  if (absl::Status status = Check(message); !status.ok()) return status;
  return message;
}

template absl::StatusOr<AgentHello> Decode(absl::string_view bytes);
template absl::StatusOr<AgentOrder> Decode(absl::string_view bytes);
template absl::StatusOr<AgentReady> Decode(absl::string_view bytes);
template absl::StatusOr<AgentGo> Decode(absl::string_view bytes);
template absl::StatusOr<AgentSignal> Decode(absl::string_view bytes);
template absl::StatusOr<AgentTerminals> Decode(absl::string_view bytes);
template absl::StatusOr<AgentRefused> Decode(absl::string_view bytes);
template absl::StatusOr<AgentStarted> Decode(absl::string_view bytes);
template absl::StatusOr<AgentOutput> Decode(absl::string_view bytes);
template absl::StatusOr<AgentEnded> Decode(absl::string_view bytes);
template absl::StatusOr<AgentTaken> Decode(absl::string_view bytes);

AgentTerminals ToMessage(const WorkerTerminals& terminals) {
  AgentTerminals message;
  message.mutable_out()->set_columns(terminals.out.columns);
  message.mutable_out()->set_rows(terminals.out.rows);
  message.mutable_err()->set_columns(terminals.err.columns);
  message.mutable_err()->set_rows(terminals.err.rows);
  return message;
}

WorkerTerminals FromMessage(const AgentTerminals& terminals) {
  const auto size = [](const AgentTerminals::Size& given) {
    return TerminalSize{static_cast<uint16_t>(given.columns()), static_cast<uint16_t>(given.rows())};
  };
  return {size(terminals.out()), size(terminals.err())};
}

AgentEnded ToMessage(int worker, const WorkerEnd& end) {
  AgentEnded message;
  message.set_worker(static_cast<uint32_t>(worker));
  message.set_code(static_cast<uint32_t>(end.code));
  message.set_signal(static_cast<uint32_t>(end.signal));
  if (end.flight.size() <= kMaxFlightBytes) message.set_flight(end.flight);
  return message;
}

WorkerEnd FromMessage(const AgentEnded& ended) {
  WorkerEnd end;
  end.code = static_cast<int>(ended.code());
  end.signal = static_cast<int>(ended.signal());
  end.flight = ended.flight();
  return end;
}

AgentRefused ToMessage(const absl::Status& error) {
  AgentRefused message;
  message.set_code(static_cast<uint32_t>(error.code()));
  message.set_sentence(std::string(error.message().substr(0, kMaxSmallBytes / 2)));
  return message;
}

void SetShares(const std::vector<HostShare>& shares, AgentOrder* order) {
  order->clear_shares();
  for (const HostShare& share : shares) {
    AgentOrder::Share* const added = order->add_shares();
    added->set_host(share.host);
    added->set_workers(static_cast<uint32_t>(share.count));
  }
}

std::vector<HostShare> SharesOf(const AgentOrder& order) {
  std::vector<HostShare> shares;
  int first = 0;
  for (const AgentOrder::Share& given : order.shares()) {
    HostShare share;
    share.host = given.host();
    share.first = first;
    share.count = static_cast<int>(given.workers());
    first += share.count;
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace farandole::launcher
