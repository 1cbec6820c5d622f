#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_FRAMES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::launcher {

// The frames between a launcher and the agent on another host, through ssh's standard input and output. Pure.
//
// The agent speaks first: kAgentGreeting, then kHello. The launcher skips bytes before the greeting: a login shell
// wrote them. The launcher answers with kOrder; the agent with kReady or kRefused; on each kGo it starts workers and
// tells what becomes of them; on kFinish, when all workers of the launch have ended, it ends what they left behind and
// says kFinished. The end of its input means: stop everything at once. Each frame is a length (4 bytes, little endian,
// of the bytes behind the type), a type, and a message: those of farandole/v1/agent.proto, except that kRemark is a
// sentence, and kFinish, kBeat and kFinished have none.
constexpr char kAgentGreetingBytes[] =
    "\x01\x7f"
    "farandole agent\n";
constexpr absl::string_view kAgentGreeting(kAgentGreetingBytes, sizeof(kAgentGreetingBytes) - 1);
// Raised with every change of frames or messages.
constexpr uint16_t kAgentProtocol = 7;

enum class FrameType : uint8_t {
  // From the launcher.
  kOrder = 1,
  kGo = 2,
  kSignal = 3,
  // So many bytes of output were taken: the agent may send as many more.
  kTaken = 4,
  kFinish = 5,
  // The launcher lives.
  kBeat = 6,
  // Workers get terminals for their output, or those that have them other sizes.
  kTerminals = 7,
  // From the agent.
  kHello = 64,
  kReady = 65,
  kRefused = 66,
  kStarted = 67,
  kOutput = 68,
  kEnded = 69,
  kRemark = 70,
  kFinished = 71,
};

// At most so many bytes of output travel before the launcher takes them, so that frames about ends and failures never
// wait behind a console without a reader.
constexpr size_t kOutputWindowBytes = 256 * 1024;
// The most that one frame of output has.
constexpr size_t kMaxOutputBytes = 64 * 1024;
// An order holds a command and an environment, for which Linux allows 2 MiB.
constexpr size_t kMaxOrderBytes = 8 * 1024 * 1024;
// The end of a worker, with what its flight recorder has kept.
constexpr size_t kMaxFlightBytes = 128 * 1024;
constexpr size_t kMaxEndedBytes = kMaxFlightBytes + 64;
// Everything else: sentences and numbers.
constexpr size_t kMaxSmallBytes = 16 * 1024;

struct Frame {
  FrameType type;
  std::string message;
};

std::string EncodeFrame(FrameType type, absl::string_view message);

// Cuts a stream into frames. Holds no more than one incomplete frame, and the bytes that were pushed last.
class FrameReader {
 public:
  void Push(absl::string_view bytes);
  // The next frame; nullopt: its end has not come yet.
  //   INVALID_ARGUMENT  no such type, or a length beyond its bound (both values are named); it stays so
  absl::StatusOr<std::optional<Frame>> Next();

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// Looks for kAgentGreeting in what a login shell may have printed before it.
class GreetingFinder {
 public:
  static constexpr size_t kMaxNoiseBytes = 64 * 1024;

  // True: found, and `*rest` is what followed it. False: not yet, or is_hopeless().
  bool Push(absl::string_view bytes, std::string* rest);
  // More than kMaxNoiseBytes came without it.
  bool is_hopeless() const { return seen_.size() > kMaxNoiseBytes; }
  // The bytes that came instead, so far.
  const std::string& seen() const { return seen_; }

 private:
  std::string seen_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROTOCOL_AGENT_FRAMES_H_
