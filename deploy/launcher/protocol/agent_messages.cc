#include "deploy/launcher/protocol/agent_messages.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/protocol/agent_frames.h"

namespace farandole::launcher {
namespace {

// As in proto/farandole/v1/worker.proto (JoinRequest).
constexpr uint32_t kMaxWorkers = 65536;
// Leaves room for kMaxWorkers in an int32.
constexpr uint32_t kMaxFirstIndex = 0x7fff0000 - 1;
constexpr uint32_t kMaxStrings = 65536;
constexpr int kMaxSignal = 64;
constexpr uint64_t kDayMs = 86'400'000;

class ByteWriter {
 public:
  void Number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
  void Text(absl::string_view text) {
    Number(text.size(), 4);
    Rest(text);
  }
  void Rest(absl::string_view bytes) { text_.append(bytes.data(), bytes.size()); }
  void Texts(const std::vector<std::string>& texts) {
    Number(texts.size(), 4);
    for (const std::string& text : texts) Text(text);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads what a ByteWriter wrote. The first thing that is wrong sticks; what is read after it is empty.
class ByteReader {
 public:
  ByteReader(absl::string_view bytes, const char* what) : bytes_(bytes), what_(what) {}

  uint64_t Number(int bytes, uint64_t most) {
    const absl::string_view text = Bytes(static_cast<size_t>(bytes));
    uint64_t value = 0;
    for (size_t i = text.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(text[i - 1]);
    if (value > most) Fail(absl::StrCat("the number ", value, " where at most ", most, " is allowed"));
    return status_.ok() ? value : 0;
  }
  bool Bool() { return Number(1, 1) != 0; }
  // Without NUL, which would end it where the system reads it.
  std::string Text() {
    const absl::string_view text = Bytes(Number(4, kMaxOrderBytes));
    if (text.find('\0') != absl::string_view::npos) Fail("a NUL in a text");
    return std::string(text);
  }
  std::vector<std::string> Texts() {
    const uint64_t count = Number(4, kMaxStrings);
    std::vector<std::string> texts;
    // Not reserved: the number is not to be believed before the texts are there.
    for (uint64_t i = 0; i < count && status_.ok(); ++i) texts.push_back(Text());
    return texts;
  }
  absl::string_view Rest() { return Bytes(bytes_.size()); }
  bool ok() const { return status_.ok(); }
  void Require(bool holds, const char* claim) {
    if (!holds) Fail(claim);
  }

  absl::Status Finish() {
    if (!bytes_.empty()) Fail(absl::StrCat(bytes_.size(), " bytes too many"));
    return status_;
  }

 private:
  absl::string_view Bytes(size_t count) {
    if (count > bytes_.size()) Fail(absl::StrCat(bytes_.size(), " bytes where ", count, " were to come"));
    if (!status_.ok()) return "";
    const absl::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  void Fail(absl::string_view why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat("the agent's ", what_, " has ", why));
    bytes_ = "";
  }

  absl::string_view bytes_;
  const char* const what_;
  absl::Status status_;
};

std::vector<HostShare> ReadShares(ByteReader* reader) {
  std::vector<HostShare> shares;
  const uint64_t count = reader->Number(4, kMaxWorkers);
  int first = 0;
  for (uint64_t i = 0; i < count && reader->ok(); ++i) {
    HostShare share;
    share.host = reader->Text();
    share.first = first;
    share.count = static_cast<int>(reader->Number(4, kMaxWorkers - static_cast<uint64_t>(first)));
    first += share.count;
    shares.push_back(std::move(share));
  }
  return shares;
}

template <typename T>
absl::StatusOr<T> Finished(ByteReader* reader, T value) {
  if (absl::Status status = reader->Finish(); !status.ok()) return status;
  return value;
}

}  // namespace

std::string Encode(const AgentHello& hello) {
  ByteWriter writer;
  writer.Number(hello.protocol, 2);
  writer.Text(hello.version);
  return writer.Take();
}

absl::StatusOr<AgentHello> DecodeHello(absl::string_view message) {
  ByteReader reader(message, "greeting");
  AgentHello hello;
  hello.protocol = static_cast<uint16_t>(reader.Number(2, 0xffff));
  hello.version = reader.Text();
  // Another protocol may add fields that this one does not know.
  if (hello.protocol != kAgentProtocol) static_cast<void>(reader.Rest());
  return Finished(&reader, std::move(hello));
}

std::string Encode(const AgentOrder& order) {
  ByteWriter writer;
  writer.Texts(order.arguments);
  writer.Texts(order.environment);
  writer.Text(order.directory);
  writer.Text(order.host);
  writer.Number(order.shares.size(), 4);
  for (const HostShare& share : order.shares) {
    writer.Text(share.host);
    writer.Number(static_cast<uint64_t>(share.count), 4);
  }
  writer.Number(order.size_here, 4);
  writer.Number(order.size, 4);
  writer.Number(order.first_index, 4);
  writer.Number(order.is_elastic ? 1 : 0, 1);
  writer.Number(order.outlives_launcher ? 1 : 0, 1);
  writer.Text(order.job);
  writer.Number(order.join_timeout_ms, 8);
  writer.Texts(order.coordinators);
  writer.Text(order.ca_pem);
  writer.Text(order.token);
  return writer.Take();
}

absl::StatusOr<AgentOrder> DecodeOrder(absl::string_view message) {
  ByteReader reader(message, "order");
  AgentOrder order;
  order.arguments = reader.Texts();
  order.environment = reader.Texts();
  order.directory = reader.Text();
  order.host = reader.Text();
  order.shares = ReadShares(&reader);
  order.size_here = static_cast<uint32_t>(reader.Number(4, kMaxWorkers));
  order.size = static_cast<uint32_t>(reader.Number(4, kMaxWorkers));
  order.first_index = static_cast<uint32_t>(reader.Number(4, kMaxFirstIndex));
  order.is_elastic = reader.Bool();
  order.outlives_launcher = reader.Bool();
  order.job = reader.Text();
  order.join_timeout_ms = reader.Number(8, kDayMs);
  order.coordinators = reader.Texts();
  order.ca_pem = reader.Text();
  order.token = reader.Text();
  reader.Require(!order.arguments.empty() && !order.arguments[0].empty(), "no command");
  reader.Require(order.size_here > 0 && order.size > 0, "no workers");
  for (const std::string& variable : order.environment) {
    const size_t equals = variable.find('=');
    reader.Require(equals != std::string::npos && equals > 0, "a variable without a name");
  }
  return Finished(&reader, std::move(order));
}

std::string Encode(const AgentReadiness& readiness) {
  ByteWriter writer;
  writer.Text(readiness.hostname);
  return writer.Take();
}

absl::StatusOr<AgentReadiness> DecodeReadiness(absl::string_view message) {
  ByteReader reader(message, "readiness");
  AgentReadiness readiness;
  readiness.hostname = reader.Text();
  return Finished(&reader, std::move(readiness));
}

std::string Encode(const AgentStaff& staff) {
  ByteWriter writer;
  writer.Number(staff.workers.size(), 4);
  for (const int worker : staff.workers) writer.Number(static_cast<uint64_t>(worker), 4);
  return writer.Take();
}

absl::StatusOr<AgentStaff> DecodeStaff(absl::string_view message) {
  ByteReader reader(message, "staff");
  AgentStaff staff;
  const uint64_t count = reader.Number(4, kMaxWorkers);
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    staff.workers.push_back(static_cast<int>(reader.Number(4, kMaxWorkers - 1)));
  }
  reader.Require(!staff.workers.empty(), "no workers");
  return Finished(&reader, std::move(staff));
}

std::string Encode(const AgentSignal& signal) {
  ByteWriter writer;
  writer.Number(signal.signal, 1);
  writer.Number(signal.whole_group ? 1 : 0, 1);
  writer.Number(static_cast<uint64_t>(signal.worker + 1), 4);
  return writer.Take();
}

absl::StatusOr<AgentSignal> DecodeSignal(absl::string_view message) {
  ByteReader reader(message, "signal");
  AgentSignal signal;
  signal.signal = static_cast<uint8_t>(reader.Number(1, kMaxSignal));
  signal.whole_group = reader.Bool();
  signal.worker = static_cast<int>(reader.Number(4, kMaxWorkers)) - 1;
  reader.Require(signal.signal > 0, "the number 0");
  return Finished(&reader, signal);
}

std::string Encode(const WorkerTerminals& terminals) {
  ByteWriter writer;
  for (const TerminalSize& size : {terminals.out, terminals.err}) {
    writer.Number(size.columns, 2);
    writer.Number(size.rows, 2);
  }
  return writer.Take();
}

absl::StatusOr<WorkerTerminals> DecodeTerminals(absl::string_view message) {
  ByteReader reader(message, "terminals");
  WorkerTerminals terminals;
  for (TerminalSize* size : {&terminals.out, &terminals.err}) {
    size->columns = static_cast<uint16_t>(reader.Number(2, 0xffff));
    size->rows = static_cast<uint16_t>(reader.Number(2, 0xffff));
  }
  return Finished(&reader, terminals);
}

std::string Encode(const AgentRefusal& refusal) {
  ByteWriter writer;
  writer.Number(static_cast<uint64_t>(refusal.code), 1);
  writer.Text(absl::string_view(refusal.sentence).substr(0, kMaxSmallBytes / 2));
  return writer.Take();
}

absl::StatusOr<AgentRefusal> DecodeRefusal(absl::string_view message) {
  ByteReader reader(message, "refusal");
  AgentRefusal refusal;
  refusal.code =
      static_cast<absl::StatusCode>(reader.Number(1, static_cast<uint64_t>(absl::StatusCode::kUnauthenticated)));
  refusal.sentence = reader.Text();
  reader.Require(refusal.code != absl::StatusCode::kOk, "the code 0");
  return Finished(&reader, std::move(refusal));
}

std::string Encode(const AgentStart& start) {
  ByteWriter writer;
  writer.Number(start.worker, 4);
  writer.Number(start.pid, 4);
  return writer.Take();
}

absl::StatusOr<AgentStart> DecodeStart(absl::string_view message) {
  ByteReader reader(message, "start");
  AgentStart start;
  start.worker = static_cast<uint32_t>(reader.Number(4, kMaxWorkers - 1));
  start.pid = static_cast<uint32_t>(reader.Number(4, 0x7fffffff));
  return Finished(&reader, start);
}

std::string Encode(const AgentOutput& output) {
  ByteWriter writer;
  writer.Number(output.worker, 4);
  writer.Number(output.is_stderr ? 1 : 0, 1);
  writer.Rest(output.bytes);
  return writer.Take();
}

absl::StatusOr<AgentOutput> DecodeOutput(absl::string_view message) {
  ByteReader reader(message, "output");
  AgentOutput output;
  output.worker = static_cast<uint32_t>(reader.Number(4, kMaxWorkers - 1));
  output.is_stderr = reader.Bool();
  output.bytes = reader.Rest();
  return Finished(&reader, output);
}

std::string Encode(const AgentEnd& end) {
  ByteWriter writer;
  writer.Number(end.worker, 4);
  writer.Number(static_cast<uint64_t>(end.end.code), 1);
  writer.Number(static_cast<uint64_t>(end.end.signal), 1);
  return writer.Take();
}

absl::StatusOr<AgentEnd> DecodeEnd(absl::string_view message) {
  ByteReader reader(message, "end");
  AgentEnd end;
  end.worker = static_cast<uint32_t>(reader.Number(4, kMaxWorkers - 1));
  end.end.code = static_cast<int>(reader.Number(1, 255));
  end.end.signal = static_cast<int>(reader.Number(1, kMaxSignal));
  return Finished(&reader, end);
}

std::string EncodeTaken(uint32_t bytes) {
  ByteWriter writer;
  writer.Number(bytes, 4);
  return writer.Take();
}

absl::StatusOr<uint32_t> DecodeTaken(absl::string_view message) {
  ByteReader reader(message, "receipt");
  const auto bytes = static_cast<uint32_t>(reader.Number(4, 0xffffffff));
  return Finished(&reader, bytes);
}

}  // namespace farandole::launcher
