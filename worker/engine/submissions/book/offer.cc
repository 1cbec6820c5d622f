#include "worker/engine/submissions/book/offer.h"

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "worker/engine/submissions/book/submission_post.h"
#include "worker/kernels/reduce.h"

namespace farandole {

// With nothing else pending, all that this rank has posted before is ordered, so the slot's posts of all ranks are
// paired to the end once all ranks have offered: the round is the slot's next collective, as the log would have it.
bool Offer::MayOpen(const Submission& submission, const NameTable::Name& name) {
  if (rendezvous_ == nullptr || name.slot == 0 || submission.group != 0) return false;
  // An offer may still be agreed after a rank has left; the tensors held for a call's first submission could not enter
  // then.
  if (submission.states_group || !TravelsInline(submission) || !rendezvous_->CanOffer()) return false;
  return pause_.IsOver();
}

void Offer::Open(Submission* submission, NameTable::Name* name, int rank) {
  submission->slot = name->slot;
  submission_ = submission;
  name_ = name;
  is_open_.store(true);
  char contribution[kInlineBytes];
  const size_t bytes = WritePayload(*submission, rank, contribution);
  rendezvous_->Offer(submission->slot, submission->signature, {contribution, bytes});
}

Submission* Offer::CloseAgreed() {
  pause_.CountAgreed();
  WriteResult();
  return Close();
}

Submission* Offer::CloseDeclined() {
  pause_.CountDeclined();
  return Close();
}

bool Offer::Decline() {
  if (submission_ != nullptr || rendezvous_->has_closed() || !rendezvous_->IsAsked()) return false;
  rendezvous_->Decline();
  pause_.CountDeclined();
  return true;
}

void Offer::WriteResult() const {
  const Submission& submission = *submission_;
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

}  // namespace farandole
