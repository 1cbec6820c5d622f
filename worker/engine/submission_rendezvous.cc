// The part of SubmissionTable that has small results computed by all ranks at once, without the order log.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "worker/engine/submission_table.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

// After so many declined rounds in a row, the pause between two offers grows no more: 63 calls.
constexpr int kMostDeclinedInARow = 6;

}  // namespace

// With nothing else pending, all that this rank has posted before is ordered, so the slot's posts of all ranks are
// paired to the end once all ranks have offered: the round is the slot's next collective, as the log would have it.
bool SubmissionTable::MayOffer(const Submission& submission, const Name& name) {
  if (rendezvous_ == nullptr || name.slot == 0 || submission.group != 0 || pending_count_.load() != 1) return false;
  // An offer may still be agreed after a rank has left; what is held for a call's first submission could not enter
  // then.
  if (submission.states_group || !TravelsInline(submission) || !rendezvous_->CanOffer()) return false;
  if (offers_to_skip_ == 0) return true;
  --offers_to_skip_;
  return false;
}

void SubmissionTable::Offer(Submission* submission, Name* name) {
  submission->slot = name->slot;
  offered_ = submission;
  offered_name_ = name;
  has_offer_.store(true);
  WritePayload(*submission, rendezvous_->payload());
  rendezvous_->Offer(submission->slot, submission->signature);
}

Submission* SubmissionTable::TakeOffered() {
  has_offer_.store(false);
  return std::exchange(offered_, nullptr);
}

void SubmissionTable::WriteAgreed(const Submission& submission) const {
  if (submission.count == 0) return;
  char buffer[kInlineBytes];
  // In place where there is one tensor: no contribution lies there.
  const bool is_one = submission.fragments.size() == 1;
  void* result = is_one ? submission.fragments[0].output : buffer;
  if (submission.op == OpType::kBroadcast) {
    std::memcpy(result, rendezvous_->payload(submission.root), static_cast<size_t>(submission.bytes()));
  } else {
    absl::InlinedVector<const void*, 16> inputs;
    for (int rank = 0; rank < rendezvous_->size(); ++rank) inputs.push_back(rendezvous_->payload(rank));
    Reduce(submission.dtype, submission.reduce_op, inputs, nullptr, result, submission.count, submission.postscale,
           rendezvous_->size());
  }
  if (!is_one) ScatterResult(submission, buffer);
}

int64_t SubmissionTable::CompleteOffered(uint32_t* slot) {
  const Lock lock(this);
  if (offered_ == nullptr) return -1;
  Submission* submission = TakeOffered();
  declined_in_a_row_ = 0;
  const int64_t bytes = submission->bytes();
  *slot = submission->slot;
  WriteAgreed(*submission);
  Finish(submission, offered_name_, absl::OkStatus());
  PostJoin();
  NotifyLocked();
  return bytes;
}

void SubmissionTable::PostOffered() {
  const Lock lock(this);
  if (offered_ == nullptr) return;
  Submission* submission = TakeOffered();
  CountDeclined();
  Name* name = offered_name_;
  submission->slot = name->slot;
  // Before all that was submitted since.
  if (const absl::Status& broken = groups_[0].broken; !broken.ok()) {
    Finish(submission, name, broken);
  } else if (name->slot == 0) {
    name->waiting.push_front(submission);
    if (name->asking == Name::Asking::kNot) Ask(name);
  } else {
    name->posted.push_front(submission);
    unposted_.push_front(MakePost(*submission));
    FlushLocked();
  }
  PostJoin();
  NotifyLocked();
}

bool SubmissionTable::DeclineOffers() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (offered_ != nullptr || rendezvous_->has_closed() || !rendezvous_->IsAsked()) return false;
  rendezvous_->Decline();
  CountDeclined();
  return true;
}

// Where ranks submit differently (one waits at once, another later), each offer is in vain and costs an exchange. All
// ranks count the same rounds, so those that run the same program offer again in the same call.
void SubmissionTable::CountDeclined() {
  declined_in_a_row_ = std::min(declined_in_a_row_ + 1, kMostDeclinedInARow);
  offers_to_skip_ = (1 << declined_in_a_row_) - 1;
}

void SubmissionTable::DropOffer(const absl::Status& reason) {
  if (offered_ != nullptr) Finish(TakeOffered(), offered_name_, reason);
}

void SubmissionTable::CloseRendezvous() {
  if (rendezvous_ != nullptr) rendezvous_->Close();
}

}  // namespace farandole
