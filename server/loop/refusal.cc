#include "server/loop/refusal.h"

#include <type_traits>
#include <variant>

namespace farandole {

std::optional<Output> Refusal(const Event& event, const absl::Status& status) {
  return std::visit(
      [&](const auto& one) -> std::optional<Output> {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, Ticked> || std::is_same_v<T, StreamClosed>) {
          return std::nullopt;
        } else if constexpr (std::is_same_v<T, StreamOpened> || std::is_same_v<T, MessageReceived>) {
          return CloseStream{one.stream, status};
        } else {
          return Reply{one.call, status, {}};
        }
      },
      event);
}

}  // namespace farandole
