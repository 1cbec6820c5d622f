#include "worker/member/checkpoint_question.h"

#include <algorithm>

#include "worker/core/clock.h"

namespace farandole {
namespace {

constexpr char kName[] = "farandole.checkpoint.requested";
constexpr int64_t kSurfaceNs = 100'000'000;

}  // namespace

int64_t AskingPace::Propose(int64_t now_ns) const {
  if (began_ns_ == 0) return 1;
  const int64_t call_ns = std::max<int64_t>((now_ns - began_ns_) / calls_, 1);
  return std::clamp<int64_t>(kDistanceNs / call_ns, 1, kMostCalls);
}

void AskingPace::Take(int64_t sum, int64_t ranks, int64_t now_ns) {
  next_ = std::clamp<int64_t>(sum / std::max<int64_t>(ranks, 1), 1, kMostCalls);
  calls_ = 0;
  began_ns_ = now_ns;
}

absl::StatusOr<bool> CheckpointQuestion::Ask(const std::function<bool()>& interrupted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size_ == 1) return Learn(Wanted());
  if (engine_->table().HasJoined())
    return absl::FailedPreconditionError("this rank has joined, and asks for nothing until all ranks have");
  if (const uint32_t joins = engine_->table().joins(); joins != joins_) {
    // Ranks that had different numbers of steps go on together.
    joins_ = joins;
    pace_ = AskingPace();
  }
  // A call that was interrupted is made again: it was counted, and the other ranks have its answer.
  if (pending_ != 0) return FinishExchange(interrupted);
  if (!pace_.Count()) return false;
  const uint64_t wanted = Wanted();
  numbers_[kSerial] = static_cast<int64_t>(wanted > answered_ ? wanted : 0);
  numbers_[kRanks] = 1;
  numbers_[kOpinion] = pace_.Propose(MonotonicNs());
  return FinishExchange(interrupted);
}

absl::StatusOr<bool> CheckpointQuestion::FinishExchange(const std::function<bool()>& interrupted) {
  if (const absl::Status status = Exchange(interrupted); !status.ok()) return status;
  // A rank that has joined would not take part in what follows.
  return numbers_[kRanks] == size_ && Learn(static_cast<uint64_t>(numbers_[kSerial]));
}

uint64_t CheckpointQuestion::Wanted() const {
  return link_ != nullptr && engine_->rank() == 0 ? link_->checkpoint_wish().wanted() : 0;
}

absl::Status CheckpointQuestion::Exchange(const std::function<bool()>& interrupted) {
  absl::StatusOr<bool> complete = false;
  if (pending_ == 0) {
    const int64_t shape[] = {kNumbers};
    const TensorView tensor = {numbers_.data(), numbers_.data(), shape};
    Request request;
    request.op = OpType::kAllreduce;
    request.dtype = DType::kI64;
    request.reduce_op = ReduceOp::kSum;
    request.name = kName;
    request.tensors = absl::MakeConstSpan(&tensor, 1);
    complete = engine_->SubmitAndWait(request, kSurfaceNs, /*release=*/true, &pending_);
  } else {
    complete = engine_->Wait(pending_, kSurfaceNs, /*release=*/true);
  }
  while (complete.ok() && !*complete) {
    if (interrupted && interrupted()) return absl::AbortedError("asking for a checkpoint was interrupted");
    complete = engine_->Wait(pending_, kSurfaceNs, /*release=*/true);
  }
  pending_ = 0;
  if (complete.ok()) pace_.Take(numbers_[kOpinion], numbers_[kRanks], MonotonicNs());
  return complete.status();
}

bool CheckpointQuestion::Learn(uint64_t serial) {
  if (serial <= answered_) return false;
  answered_ = serial;
  if (engine_->rank() == 0 && link_ != nullptr) link_->checkpoint_wish().Tell(serial);
  return true;
}

}  // namespace farandole
