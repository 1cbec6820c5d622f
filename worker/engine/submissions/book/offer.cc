#include "worker/engine/submissions/book/offer.h"

#include <cstring>

#include "absl/types/span.h"
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
  if (submission.bytes() > static_cast<int64_t>(rendezvous_->most_bytes()) || !MayTravelInline(submission))
    return false;
  // An allreduce of a tensor in an arena runs there.
  return submission.op != OpType::kAllreduce || arenas_ == nullptr ||
         arenas_->PlacementOf(submission.fragments, SizeOf(submission.dtype)).arena == 0;
}

void Offer::Open(Submission* submission, NameTable::Name* name, int rank) {
  submission->slot = name->slot;
  submission_ = submission;
  name_ = name;
  is_open_.store(true, std::memory_order_release);
  if (submission->bytes() > kInlineBytes) {
    WritePayload(*submission, rank, rendezvous_->Place());
    return rendezvous_->Offer(submission->slot, submission->signature, "");
  }
  const bool is_one = Reduces(submission->op) && submission->fragments.size() == 1;
  if (is_one && submission->prescale == 1.0) {
    const char* const input = static_cast<const char*>(submission->fragments[0].input);
    const size_t bytes = static_cast<size_t>(submission->bytes());
    return rendezvous_->Offer(submission->slot, submission->signature, {input, bytes});
  }
  char contribution[kInlineBytes];
  const size_t bytes = WritePayload(*submission, rank, contribution);
  rendezvous_->Offer(submission->slot, submission->signature, {contribution, bytes});
}

Submission* Offer::CloseAgreed() {
  pause_.CountAgreed();
  WriteResult();
  rendezvous_->FetchAhead(static_cast<size_t>(submission_->bytes()));
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
  const int size = rendezvous_->size();
  const void* inputs[Rendezvous::kMostRanks];
  size_t offset = 0;
  for (const Fragment& fragment : submission.fragments) {
    const size_t fragment_bytes = fragment.count * SizeOf(submission.dtype);
    if (submission.op == OpType::kBroadcast) {
      std::memcpy(fragment.output, rendezvous_->payload(submission.root, bytes) + offset, fragment_bytes);
    } else if (fragment.output != nullptr) {  // else other ranks' part of a reducescatter
      for (int rank = 0; rank < size; ++rank) inputs[rank] = rendezvous_->payload(rank, bytes) + offset;
      Reduce(submission.dtype, submission.reduce_op, absl::MakeConstSpan(inputs, static_cast<size_t>(size)), nullptr,
             fragment.output, fragment.count, submission.postscale, size);
    }
    offset += fragment_bytes;
  }
}

}  // namespace farandole
