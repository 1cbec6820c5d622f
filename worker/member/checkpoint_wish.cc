#include "worker/member/checkpoint_wish.h"

#include "base/text/plain_text.h"

namespace farandole {
namespace {

// CheckpointTold.failure has 1,024 at most, three of which may be "...".
constexpr size_t kMostFailureBytes = 1021;

}  // namespace

void CheckpointWish::Take(const v1::CheckpointWanted& wanted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wanted_ = wanted;
  if (told_.has_value() && told_->serial() == wanted.serial()) Send();
}

uint64_t CheckpointWish::wanted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wanted_.serial();
}

void CheckpointWish::Tell(uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  told_.emplace();
  told_->set_epoch(wanted_.epoch());
  told_->set_serial(serial);
  Send();
}

void CheckpointWish::Fail(uint64_t serial, absl::string_view failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!told_.has_value() || told_->serial() != serial) return;
  told_->set_failure(Plain(failure, kMostFailureBytes));
  Send();
}

void CheckpointWish::Forget(uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (wanted_.serial() == serial) wanted_.set_serial(0);
}

void CheckpointWish::Send() {
  v1::WorkerMessage message;
  *message.mutable_checkpoint_told() = *told_;
  send_(std::move(message));
}

}  // namespace farandole
