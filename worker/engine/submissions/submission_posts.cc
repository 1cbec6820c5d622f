// The part of SubmissionTable that gives submissions to the ranks.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "worker/engine/submissions/submission_table.h"
#include "worker/kernels/scale.h"

namespace farandole {

bool SubmissionTable::TravelsInline(const Submission& submission) {
  if (submission.gpu != nullptr) return false;
  if (!TraitsOf(submission.op).may_be_inline || submission.reduce_op == ReduceOp::kAdasum) return false;
  // A barrier has no bytes.
  return submission.bytes() <= kInlineBytes;
}

bool SubmissionTable::EnterCaptured() {
  struct Captured {
    int64_t handle;
    std::shared_ptr<Gpu> gpu;
    GpuEvent ready;
    absl::Status status;
  };
  std::vector<Captured> entering;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const int64_t handle : std::exchange(captured_, {})) {
      const Submission* submission = pool_.Find(handle);
      if (submission != nullptr && !submission->complete.load())
        entering.push_back({handle, submission->gpu, submission->ready, absl::OkStatus()});
    }
  }
  // Without the lock: drivers may take their time.
  for (Captured& one : entering) one.status = one.gpu->CheckCapture(one.ready);
  const Lock lock(this);
  for (const Captured& one : entering) {
    Submission* submission = pool_.Find(one.handle);
    if (submission == nullptr || submission->complete.load()) continue;
    Name* name = names_.Find(submission->group, submission->name);
    if (name == nullptr) continue;
    const auto at = std::find(name->waiting.begin(), name->waiting.end(), submission);
    if (at == name->waiting.end()) continue;  // it has gone with another one that has no name either
    name->waiting.erase(at);
    if (!one.status.ok()) {
      Finish(submission, name, one.status);
    } else if (submission->after != 0) {
      EnterOrHold(submission, name);
    } else {
      Enter(submission, name);
    }
  }
  if (!entering.empty()) NotifyLocked();
  return !entering.empty();
}

void SubmissionTable::Enter(Submission* submission, Name* name) {
  if (submission->op == OpType::kJoin) {
    join_.Begin(submission);
    name->posted.push_back(submission);
    Describe(*submission, 0, 0, 0, 0);
    return PostJoin();
  }
  if (name->slot == 0 && link_ == nullptr) AssignSlot(name, ++last_own_slot_);
  if (name->slot != 0) {
    submission->slot = name->slot;
    name->posted.push_back(submission);
    Send(MakePost(*submission));
    return;
  }
  name->waiting.push_back(submission);
  if (name->asking == Name::Asking::kNot) Ask(name);
}

void SubmissionTable::EnterOrHold(Submission* submission, Name* name) {
  const Submission* first = pool_.Find(submission->after);
  if (first != nullptr && !first->running && !first->complete.load()) return held_.Add(submission);
  const bool may_enter = first == nullptr || first->status.ok();
  may_enter ? Enter(submission, name) : Finish(submission, name, first->status);
}

void SubmissionTable::EnterHeld(const Submission& first, const absl::Status& status) {
  if (held_.empty()) return;
  const std::vector<Submission*> held = held_.TakeAfter(first.handle);
  for (Submission* submission : held) {
    Name* name = names_.Find(submission->group, submission->name);
    status.ok() ? Enter(submission, name) : Finish(submission, name, status);
  }
  if (!held.empty()) PostJoin();
}

void SubmissionTable::AssignSlot(Name* name, uint32_t slot) {
  EndAsking(name);
  names_.SetSlot(name, slot);
  if (rank_ == 0) {
    news_.push_back(SlotAdded{slot, name->group});
    has_news_.store(true);
  }
}

size_t SubmissionTable::WritePayload(const Submission& submission, char* payload) {
  if (!Reduces(submission.op) && names_.group(submission.group).position != submission.root) return 0;
  size_t bytes = 0;
  for (const Fragment& fragment : submission.fragments) {
    // Rounded to the dtype here, as transports do it. Broadcasts have no scale.
    ScaleCopy(submission.dtype, fragment.input, payload + bytes, fragment.count, submission.prescale);
    bytes += fragment.count * SizeOf(submission.dtype);
  }
  return bytes;
}

Post SubmissionTable::MakePost(const Submission& submission) {
  meter_.Submitted(submission.slot);
  using Counts = OpTraits::Counts;
  const OpTraits& traits = TraitsOf(submission.op);
  Post post;
  post.slot = submission.slot;
  post.op = submission.op;
  post.dtype = submission.dtype;
  post.signature = submission.signature;
  post.count = submission.count;
  if (submission.gpu != nullptr) post.flags |= kOnGpus;
  if (submission.ready.is_captured()) post.flags |= kIsCaptured;
  if (traits.counts == Counts::kExchanged) {
    post.count = submission.row_elements();
  } else if (traits.allocates_result && submission.row_elements() == 0) {
    post.flags |= kRowsAreEmpty;
    post.count = submission.rows();
  }
  post.root = submission.root;
  post.reduce_op = submission.reduce_op;
  post.prescale = submission.prescale;
  post.postscale = submission.postscale;
  post.is_inline = TravelsInline(submission) ? 1 : 0;
  if (post.is_inline != 0) {
    post.payload_bytes = static_cast<uint16_t>(WritePayload(submission, post.payload));
  } else if (traits.counts == Counts::kShares) {
    post.set_rows(submission.rows());
  } else if (submission.op == OpType::kAllreduce && submission.reduce_op != ReduceOp::kAdasum && arenas_ != nullptr) {
    post.set_placement(arenas_->PlacementOf(submission.fragments, SizeOf(submission.dtype)));
  }
  return post;
}

void SubmissionTable::PostJoin() {
  if (!join_.IsDue() || offer_.submission() != nullptr || !held_.empty() || names_.HasWaiting()) return;
  Send(join_.TakePost());
}

void SubmissionTable::PostLeave() {
  std::lock_guard<std::mutex> lock(mutex_);
  Post post;
  post.kind = Post::Kind::kLeave;
  CloseRendezvous();
  if (offer_.submission() == nullptr) return Send(post);
  // Not behind the submissions in the rendezvous, whose outcome may depend on what other ranks do once they read this
  // post.
  posts_.SendFirst(post, /*is_offering=*/true);
}

bool SubmissionTable::FlushPosts() {
  std::lock_guard<std::mutex> lock(mutex_);
  return posts_.Flush(offer_.submission() != nullptr);
}

}  // namespace farandole
