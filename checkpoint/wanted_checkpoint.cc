#include "checkpoint/wanted_checkpoint.h"

namespace farandole {

bool WantedCheckpoint::Ask(absl::string_view asker, uint64_t last_token, bool is_writing, int64_t now_ms) {
  const bool is_forgotten = state_.told_unix_ms() != 0 && now_ms - state_.told_unix_ms() >= kBeginMs;
  if (IsPending() && !is_writing && !is_forgotten) {
    state_.set_times(state_.times() + 1);
    return false;
  }
  const uint64_t serial = state_.serial() + 1;
  state_.Clear();
  state_.set_serial(serial);
  state_.set_asker(std::string(asker));
  state_.set_since_unix_ms(now_ms);
  state_.set_times(1);
  state_.set_after_token(last_token);
  return true;
}

bool WantedCheckpoint::Tell(uint64_t serial, uint64_t epoch, int64_t now_ms) {
  if (!IsPending() || serial != state_.serial() || state_.told_epoch() == epoch) return false;
  state_.set_told_unix_ms(now_ms);
  state_.set_told_epoch(epoch);
  return true;
}

bool WantedCheckpoint::Fulfil(const v1::Checkpoint& checkpoint, int64_t now_ms) {
  if (!IsPending() || checkpoint.token() <= state_.after_token()) return false;
  state_.set_over_unix_ms(now_ms);
  *state_.mutable_checkpoint() = checkpoint;
  return true;
}

void WantedCheckpoint::Fail(absl::string_view sentence, int64_t now_ms) {
  state_.set_over_unix_ms(now_ms);
  state_.set_failure(std::string(sentence));
}

std::optional<uint64_t> WantedCheckpoint::TakeNews(uint64_t epoch) {
  if (epoch_ != epoch) {
    // Its rank 0 knows of none; after a restart of the coordinator, it comes back.
    epoch_ = epoch;
    if (knows_.has_value()) knows_ = 0;
    if (state_.told_epoch() != epoch) {
      state_.clear_told_unix_ms();
      state_.clear_told_epoch();
    }
  }
  const uint64_t wanted = IsPending() ? state_.serial() : 0;
  if (knows_ == wanted) return std::nullopt;
  knows_ = wanted;
  return wanted;
}

}  // namespace farandole
