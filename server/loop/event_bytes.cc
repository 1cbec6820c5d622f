#include "server/loop/event_bytes.h"

#include <type_traits>
#include <variant>

namespace farandole {
namespace {

// An event in the mailbox, with its job's name and its charge.
constexpr int64_t kPlaceBytes = sizeof(Event) + 256;

template <typename T, typename = void>
struct HasRequest : std::false_type {};
template <typename T>
struct HasRequest<T, std::void_t<decltype(T::request)>> : std::true_type {};

}  // namespace

int64_t BytesOf(const google::protobuf::Message& message) {
  return kPlaceBytes + static_cast<int64_t>(message.SpaceUsedLong());
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
          return kPlaceBytes;
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
                       std::holds_alternative<CheckpointsListed>(event) ||
                       std::holds_alternative<EvidenceRequested>(event) ||
                       std::holds_alternative<FlightReported>(event) || std::holds_alternative<LoggedListed>(event) ||
                       std::holds_alternative<TimelineOrdered>(event) || std::holds_alternative<TimelineFetched>(event);
  return is_look ? ByteClass::kObserver : ByteClass::kJob;
}

}  // namespace farandole
