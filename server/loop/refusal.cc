#include "server/loop/refusal.h"

#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::Status EndOfDroppedJob(const JobKey& key, const absl::Status& failure) {
  const std::string sentence = absl::StrCat("job ", key.job, ": ", failure.message());
  if (failure.code() == absl::StatusCode::kFailedPrecondition) return absl::AbortedError(sentence);
  if (failure.code() == absl::StatusCode::kInvalidArgument) return absl::ResourceExhaustedError(sentence);
  if (failure.code() == absl::StatusCode::kDataLoss) return absl::DataLossError(sentence);
  return absl::UnavailableError(sentence);
}

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
