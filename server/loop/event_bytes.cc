#include "server/loop/event_bytes.h"

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "server/bytes/byte_ledger.h"

namespace farandole {
namespace {

// An event in the mailbox, with its job's name and its charge.
constexpr int64_t kPlaceBytes = sizeof(Event) + 256;

int64_t SizeOf(const std::string& text) { return static_cast<int64_t>(text.capacity()); }

// An event without a message, which has texts and numbers of its own.
template <typename T>
int64_t PayloadOf(const T&) {
  return 0;
}
int64_t PayloadOf(const StreamClosed& event) { return SizeOf(event.evidence); }
int64_t PayloadOf(const DeleteCheckpointRequested& event) { return SizeOf(event.name); }
int64_t PayloadOf(const CheckpointAsked& event) { return SizeOf(event.asker); }
int64_t PayloadOf(const AbortRequested& event) { return SizeOf(event.reason); }
int64_t PayloadOf(const LoggedListed& event) {
  auto bytes = static_cast<int64_t>(event.names.capacity() * sizeof(std::string));
  for (const std::string& name : event.names) bytes += SizeOf(name);
  return bytes;
}
int64_t PayloadOf(const DrainRequested& event) {
  return SizeOf(event.hostname) + SizeOf(event.reason) +
         static_cast<int64_t>(event.launched.size() * sizeof(uint32_t) * 2);
}

template <typename T, typename = void>
struct HasRequest : std::false_type {};
template <typename T>
struct HasRequest<T, std::void_t<decltype(T::request)>> : std::true_type {};

}  // namespace

int64_t BytesOfEvent(int64_t message_bytes) { return kPlaceBytes + message_bytes; }

int64_t BytesOf(const google::protobuf::Message& message) {
  return BytesOfEvent(static_cast<int64_t>(message.SpaceUsedLong()));
}

int64_t BytesOf(const Event& event) {
  return std::visit(
      [](const auto& one) -> int64_t {
        using T = std::decay_t<decltype(one)>;
        if constexpr (HasRequest<T>::value) {
          return BytesOf(one.request);
        } else if constexpr (std::is_same_v<T, StreamOpened>) {
          return BytesOf(one.hello);
        } else if constexpr (std::is_same_v<T, MessageReceived>) {
          return BytesOf(one.message);
        } else {
          return kPlaceBytes + PayloadOf(one);
        }
      },
      event);
}

int64_t BytesOf(const Reply& reply) {
  return std::visit(
      [](const auto& message) -> int64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(message)>, std::monostate>) {
          return kPlaceBytes;
        } else {
          return BytesOf(message);
        }
      },
      reply.message);
}

ByteClass ClassOf(const Event& event) {
  if (std::holds_alternative<JoinRequested>(event) || std::holds_alternative<JobClaimed>(event))
    return ByteClass::kJoin;
  const bool is_look = std::holds_alternative<JobInspected>(event) ||
                       std::holds_alternative<CheckpointsListed>(event) || std::holds_alternative<LostListed>(event) ||
                       std::holds_alternative<EvidenceRequested>(event) ||
                       std::holds_alternative<CollectivesSurveyed>(event) ||
                       std::holds_alternative<FlightReported>(event) || std::holds_alternative<LoggedListed>(event) ||
                       std::holds_alternative<TimelineOrdered>(event) || std::holds_alternative<TimelineFetched>(event);
  return is_look ? ByteClass::kObserver : ByteClass::kJob;
}

absl::Duration MayOwe(const Event& event) {
  if (ClassOf(event) == ByteClass::kObserver) return absl::ZeroDuration();
  const bool is_search = std::holds_alternative<FindCheckpointRequested>(event);
  return absl::Seconds(is_search ? kPaceBurstSeconds / 2 : kPaceBurstSeconds);
}

}  // namespace farandole
