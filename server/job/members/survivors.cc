#include "server/job/members/survivors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {

Survivors::Survivors(v1::Epoch epoch, std::unique_ptr<Roster> roster, absl::Duration return_limit, absl::Time now)
    : epoch_(std::move(epoch)), roster_(std::move(roster)), return_limit_(return_limit) {
  for (uint32_t rank = 0; rank < roster_->size(); ++rank) {
    const Roster::Seat& seat = roster_->seat(rank);
    const bool is_gone = seat.drained || !seat.lost.empty() || (seat.left && !seat.returns);
    if (is_gone) {
      roster_->Unwatch(rank);
      continue;
    }
    awaited_.insert(awaited_.end(), rank);
    // Also who had not come back yet after a restart of the coordinator, and would be waited for for ever.
    if (seat.returns || seat.stream == 0) roster_->Watch(rank, now);
  }
}

Survivors::Survivors(v1::Epoch epoch, std::unique_ptr<Roster> roster, absl::Duration return_limit,
                     absl::Duration window, absl::Time now)
    : Survivors(std::move(epoch), std::move(roster), return_limit, now) {
  for (const uint32_t rank : awaited_) roster_->Unwatch(rank);
  unseen_ = awaited_;
  window_ = window;
  if (!unseen_.empty()) unseen_until_ = now + window;
}

StreamId Survivors::Attach(uint32_t rank, StreamId stream, absl::Time now) {
  // The others may come as slowly, as where the coordinator has much to read.
  if (unseen_.erase(rank) > 0) unseen_until_ = std::max(unseen_until_, now + window_ / 3);
  return roster_->Attach(rank, stream, now);
}

std::string Survivors::Detach(uint32_t rank, const std::string& evidence, absl::Time now) {
  roster_->Detach(rank, evidence, now);
  const auto accused = accused_.find(rank);
  return IsAwaited(rank) && accused != accused_.end() ? accused->second : "";
}

std::string Survivors::Accuse(uint32_t rank, const std::string& claim) {
  const Roster::Seat& seat = roster_->seat(rank);
  if (!IsAwaited(rank) || seat.left || unseen_.contains(rank)) return "";
  accused_[rank] = claim;
  return seat.stream == 0 ? claim : "";
}

StreamId Survivors::Return(uint32_t rank) {
  const StreamId stream = roster_->seat(rank).stream;
  Drop(rank);
  back_.insert(rank);
  if (!roster_->seat(rank).left) roster_->Leave(rank, true);
  return stream;
}

void Survivors::Await(uint32_t rank, absl::Time now) {
  if (back_.erase(rank) == 0) return;
  awaited_.insert(rank);
  if (return_until_ != absl::InfiniteFuture()) return_until_ = std::max(return_until_, now + return_limit_);
  roster_->Watch(rank, now);
}

void Survivors::SetMissed(bool is_missed, absl::Time now) {
  if (!is_missed) {
    return_until_ = absl::InfiniteFuture();
  } else if (return_until_ == absl::InfiniteFuture()) {
    return_until_ = now + return_limit_;
  }
}

void Survivors::Excuse(absl::Time judged_from) {
  roster_->Excuse(judged_from);
  if (return_until_ != absl::InfiniteFuture()) return_until_ = std::max(return_until_, judged_from + return_limit_);
}

void Survivors::Leave(uint32_t rank, bool returns, absl::Time now) {
  roster_->Leave(rank, returns);
  if (returns && IsAwaited(rank)) return roster_->Watch(rank, now);
  Drop(rank);
}

void Survivors::Drain(uint32_t rank) {
  roster_->Drain(rank);
  Drop(rank);
}

void Survivors::Lose(uint32_t rank, const std::string& reason) {
  roster_->MarkLost(rank, reason);
  Drop(rank);
}

void Survivors::Drop(uint32_t rank) {
  roster_->Unwatch(rank);
  awaited_.erase(rank);
  back_.erase(rank);
  unseen_.erase(rank);
}

std::vector<Roster::Loss> Survivors::FindLosses(absl::Time now) const {
  std::vector<Roster::Loss> losses = roster_->Silent(now);
  for (Roster::Loss& loss : losses) {
    if (roster_->seat(loss.rank).left) loss.claim = "it left to join again, and did not in time";
  }
  if (return_until_ <= now) {
    losses.clear();
    for (const uint32_t rank : awaited_) {
      losses.push_back({rank, absl::StrCat("it did not join again within ", ShowDuration(return_limit_),
                                           " while others waited for it, which is the most (its stall limit)")});
    }
    return losses;
  }
  if (unseen_until_ > now) return losses;
  for (const uint32_t rank : unseen_) {
    losses.push_back({rank, absl::StrCat("it did not come back within ", ShowDuration(window_),
                                         " after the coordinator's restart")});
  }
  return losses;
}

absl::Time Survivors::Deadline() const {
  return std::min({roster_->Deadline(), unseen_.empty() ? absl::InfiniteFuture() : unseen_until_,
                   awaited_.empty() ? absl::InfiniteFuture() : return_until_});
}

std::string Survivors::NameAwaited() const {
  std::vector<uint32_t> first;
  for (const uint32_t rank : awaited_) {
    if (first.size() > Roster::kMostNamed) break;
    first.push_back(rank);
  }
  return roster_->DescribeAll(first, awaited_.size());
}

std::vector<v1::WorkerStatus> Survivors::Workers(absl::Time now) const {
  std::vector<v1::WorkerStatus> workers;
  for (uint32_t rank = 0; rank < roster_->size(); ++rank) {
    if (IsBack(rank)) continue;
    const Roster::Seat& seat = roster_->seat(rank);
    v1::WorkerStatus& worker = workers.emplace_back();
    worker.set_rank(rank);
    *worker.mutable_member() = seat.member;
    worker.set_batches(seat.batches);
    if (!seat.lost.empty()) {
      worker.set_state(absl::StrCat("lost: ", seat.lost));
    } else {
      worker.set_state(IsAwaited(rank) ? "returning" : "left");
    }
    if (IsAwaited(rank) && !unseen_.contains(rank)) worker.set_silence_ms(absl::ToInt64Milliseconds(now - seat.heard));
  }
  return workers;
}

}  // namespace farandole
