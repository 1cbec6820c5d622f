// The frames between a launcher and an agent, in pieces of any length.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/check.h"
#include "deploy/launcher/protocol/agent_frames.h"
#include "deploy/launcher/protocol/agent_messages.h"

namespace farandole::launcher {
namespace {

template <typename Message>
void Read(const std::string& bytes) {
  const absl::StatusOr<Message> message = Decode<Message>(bytes);
  if (!message.ok()) return;
  const absl::StatusOr<Message> again = Decode<Message>(message->SerializeAsString());
  FD_CHECK(again.ok()) << again.status();
}

void Read(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kOrder: {
      Read<AgentOrder>(frame.message);
      const absl::StatusOr<AgentOrder> order = Decode<AgentOrder>(frame.message);
      if (order.ok()) static_cast<void>(SharesOf(*order));
      return;
    }
    case FrameType::kGo:
      return Read<AgentGo>(frame.message);
    case FrameType::kSignal:
      return Read<AgentSignal>(frame.message);
    case FrameType::kTaken:
      return Read<AgentTaken>(frame.message);
    case FrameType::kTerminals: {
      const absl::StatusOr<AgentTerminals> terminals = Decode<AgentTerminals>(frame.message);
      if (terminals.ok()) static_cast<void>(FromMessage(*terminals));
      return;
    }
    case FrameType::kHello:
      return Read<AgentHello>(frame.message);
    case FrameType::kReady:
      return Read<AgentReady>(frame.message);
    case FrameType::kRefused:
      return Read<AgentRefused>(frame.message);
    case FrameType::kStarted:
      return Read<AgentStarted>(frame.message);
    case FrameType::kOutput:
      return Read<AgentOutput>(frame.message);
    case FrameType::kEnded: {
      const absl::StatusOr<AgentEnded> ended = Decode<AgentEnded>(frame.message);
      if (ended.ok()) static_cast<void>(FromMessage(*ended));
      return;
    }
    case FrameType::kFinish:
    case FrameType::kBeat:
    case FrameType::kRemark:
    case FrameType::kFinished:
      return;
  }
  FD_CHECK(false) << "a frame of no type was taken: " << static_cast<int>(frame.type);
}

// All frames up to the first error, which has to stay.
void ReadAll(FrameReader* reader) {
  for (;;) {
    absl::StatusOr<std::optional<Frame>> next = reader->Next();
    if (!next.ok()) {
      FD_CHECK(!reader->Next().ok());
      return;
    }
    if (!next->has_value()) return;
    Read(**next);
  }
}

}  // namespace
}  // namespace farandole::launcher

// The first byte is the length of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = size_t{data[0]} + 1;
  absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  farandole::launcher::GreetingFinder greeting;
  farandole::launcher::FrameReader reader;
  std::string rest;
  greeting.Push(bytes, &rest);
  while (!bytes.empty()) {
    reader.Push(bytes.substr(0, piece));
    farandole::launcher::ReadAll(&reader);
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  return 0;
}
