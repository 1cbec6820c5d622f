// The part of SubmissionTable that has small results computed by all ranks at once, without the order log.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/kernels/reduce.h"

namespace farandole {
// With nothing else pending, all that this rank has posted before is ordered, so the slot's posts of all ranks are
// paired to the end once all ranks have offered: the round is the slot's next collective, as the log would have it.
bool SubmissionTable::MayOffer(const Submission& submission, const Name& name) {
  if (rendezvous_ == nullptr || name.slot == 0 || submission.group != 0 || pending_count_.load() != 1) return false;
  // An offer may still be agreed after a rank has left; the tensors held for a call's first submission could not enter
  // then.
  if (submission.states_group || !TravelsInline(submission) || !rendezvous_->CanOffer()) return false;
  return offer_.MayOpen();
}

void SubmissionTable::OpenOffer(Submission* submission, Name* name) {
  submission->slot = name->slot;
  meter_.Submitted(submission->slot);
  offer_.Open(submission, name);
  WritePayload(*submission, rendezvous_->payload());
  rendezvous_->Offer(submission->slot, submission->signature);
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
  if (offer_.submission() == nullptr) return -1;
  Submission* submission = offer_.Close();
  offer_.CountAgreed();
  const int64_t bytes = submission->bytes();
  *slot = submission->slot;
  WriteAgreed(*submission);
  Finish(submission, offer_.name(), absl::OkStatus());
  PostJoin();
  NotifyLocked();
  return bytes;
}

void SubmissionTable::PostOffered() {
  const Lock lock(this);
  if (offer_.submission() == nullptr) return;
  Submission* submission = offer_.Close();
  offer_.CountDeclined();
  Name* name = offer_.name();
  submission->slot = name->slot;
  // Before all that was submitted since.
  if (const absl::Status& broken = names_.group(0).broken; !broken.ok()) {
    Finish(submission, name, broken);
  } else if (name->slot == 0) {
    name->waiting.push_front(submission);
    if (name->asking == Name::Asking::kNot) Ask(name);
  } else {
    name->posted.push_front(submission);
    posts_.SendFirst(MakePost(*submission), /*is_offering=*/false);
  }
  PostJoin();
  NotifyLocked();
}

bool SubmissionTable::DeclineOffers() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (offer_.submission() != nullptr || rendezvous_->has_closed() || !rendezvous_->IsAsked()) return false;
  rendezvous_->Decline();
  offer_.CountDeclined();
  return true;
}

void SubmissionTable::DropOffer(const absl::Status& reason) {
  if (offer_.submission() != nullptr) Finish(offer_.Close(), offer_.name(), reason);
}

void SubmissionTable::CloseRendezvous() {
  if (rendezvous_ != nullptr) rendezvous_->Close();
}

}  // namespace farandole
