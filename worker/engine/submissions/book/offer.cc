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
  if (submission.states_group || !Fits(submission) || !rendezvous_->CanOffer()) return false;
  return pause_.IsOver();
}

bool Offer::Fits(const Submission& submission) const {
  if (submission.bytes() <= kInlineBytes) return MayTravelInline(submission);
  if (submission.bytes() > static_cast<int64_t>(rendezvous_->most_bytes()) || !MayTravelInline(submission)) return false;
  // What lies in an arena is reduced there.
  return arenas_ == nullptr || arenas_->PlacementOf(submission.fragments, SizeOf(submission.dtype)).arena == 0;
}

void Offer::Open(Submission* submission, NameTable::Name* name, int rank) {
  submission->slot = name->slot;
  submission_ = submission;
  name_ = name;
  is_open_.store(true);
  if (submission->bytes() > kInlineBytes) {
    WritePayload(*submission, rank, rendezvous_->Place());
    return rendezvous_->Offer(submission->slot, submission->signature, "");
  }
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
  const size_t bytes = static_cast<size_t>(submission.bytes());
  absl::InlinedVector<const char*, 16> contributions;
  for (int rank = 0; rank < rendezvous_->size(); ++rank)
    contributions.push_back(rendezvous_->payload(rank, bytes));
  absl::InlinedVector<const void*, 16> inputs(contributions.size());
  size_t offset = 0;
  for (const Fragment& fragment : submission.fragments) {
    if (submission.op == OpType::kBroadcast) {
      std::memcpy(fragment.output, contributions[submission.root] + offset, fragment.count * SizeOf(submission.dtype));
    } else {
      for (size_t rank = 0; rank < inputs.size(); ++rank) inputs[rank] = contributions[rank] + offset;
      Reduce(submission.dtype, submission.reduce_op, inputs, nullptr, fragment.output, fragment.count,
             submission.postscale, rendezvous_->size());
    }
    offset += fragment.count * SizeOf(submission.dtype);
  }
}

}  // namespace farandole
