#include "deploy/launcher/protocol/agent_frames.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farandole::launcher {
namespace {

constexpr size_t kHeaderBytes = 5;

// The most bytes of a message of this type; nullopt: there is no such type.
std::optional<size_t> BoundOf(uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kOrder:
    case FrameType::kGo:
      return kMaxOrderBytes;
    case FrameType::kOutput:
      // With the worker's index, the stream and their tags.
      return kMaxOutputBytes + 16;
    case FrameType::kEnded:
      return kMaxEndedBytes;
    case FrameType::kFinish:
    case FrameType::kBeat:
    case FrameType::kFinished:
      return 0;
    case FrameType::kSignal:
    case FrameType::kTaken:
    case FrameType::kTerminals:
    case FrameType::kHello:
    case FrameType::kReady:
    case FrameType::kRefused:
    case FrameType::kStarted:
    case FrameType::kRemark:
      return kMaxSmallBytes;
  }
  return std::nullopt;
}

}  // namespace

std::string EncodeFrame(FrameType type, absl::string_view message) {
  std::string frame;
  frame.reserve(kHeaderBytes + message.size());
  for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(message.size() >> shift & 0xff));
  frame.push_back(static_cast<char>(type));
  frame.append(message.data(), message.size());
  return frame;
}

void FrameReader::Push(absl::string_view bytes) {
  bytes_.erase(0, at_);
  at_ = 0;
  bytes_.append(bytes.data(), bytes.size());
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next() {
  if (bytes_.size() - at_ < kHeaderBytes) return std::nullopt;
  const auto* header = reinterpret_cast<const unsigned char*>(bytes_.data()) + at_;
  const size_t length = header[0] | header[1] << 8 | header[2] << 16 | static_cast<size_t>(header[3]) << 24;
  const std::optional<size_t> bound = BoundOf(header[4]);
  if (!bound.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no frame of type ", static_cast<int>(header[4])));
  }
  if (length > *bound) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of type ", static_cast<int>(header[4]), " has at most ",
                                                   *bound, " bytes, and this one ", length));
  }
  if (bytes_.size() - at_ - kHeaderBytes < length) return std::nullopt;
  Frame frame{static_cast<FrameType>(header[4]), bytes_.substr(at_ + kHeaderBytes, length)};
  at_ += kHeaderBytes + length;
  return frame;
}

bool GreetingFinder::Push(absl::string_view bytes, std::string* rest) {
  // The greeting may be cut in two, so the search begins before the new bytes.
  const size_t from = seen_.size() - std::min(seen_.size(), kAgentGreeting.size());
  seen_.append(bytes.data(), bytes.size());
  const size_t found = seen_.find(kAgentGreetingBytes, from, kAgentGreeting.size());
  if (found == std::string::npos) return false;
  *rest = seen_.substr(found + kAgentGreeting.size());
  seen_.resize(found);
  return true;
}

}  // namespace farandole::launcher
