// The part of SubmissionTable that gives submissions to the ranks.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "worker/engine/submissions/submission_post.h"
#include "worker/engine/submissions/submission_table.h"

namespace farandole {

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
      Finish(submission, name, one.status, clock_());
    } else if (submission->after != 0) {
      EnterOrHold(submission, name);
    } else {
      Enter(submission, name);
    }
  }
  if (!entering.empty()) notice_.Notify();
  return !entering.empty();
}

void SubmissionTable::Enter(Submission* submission, Name* name) {
  if (submission->op == OpType::kJoin) {
    join_.Begin(submission);
    name->posted.push_back(submission);
    negotiation_.DescribeJoin(*submission);
    return PostJoin();
  }
  if (name->slot == 0 && negotiation_.is_alone()) AssignSlot(name, ++last_own_slot_);
  if (name->slot != 0) {
    submission->slot = name->slot;
    name->posted.push_back(submission);
    Send(MakePost(*submission));
    return;
  }
  name->waiting.push_back(submission);
  if (name->asking == Name::Asking::kNot) negotiation_.Ask(name);
}

void SubmissionTable::EnterOrHold(Submission* submission, Name* name) {
  const Submission* first = pool_.Find(submission->after);
  if (first != nullptr && !first->running && !first->complete.load()) return held_.Add(submission);
  const bool may_enter = first == nullptr || first->status.ok();
  may_enter ? Enter(submission, name) : Finish(submission, name, first->status, clock_());
}

void SubmissionTable::EnterHeld(const Submission& first, const absl::Status& status) {
  if (held_.empty()) return;
  const std::vector<Submission*> held = held_.TakeAfter(first.handle);
  for (Submission* submission : held) {
    Name* name = names_.Find(submission->group, submission->name);
    status.ok() ? Enter(submission, name) : Finish(submission, name, status, clock_());
  }
  if (!held.empty()) PostJoin();
}

void SubmissionTable::AssignSlot(Name* name, uint32_t slot) {
  negotiation_.EndAsking(name);
  names_.SetSlot(name, slot);
  flight_.Assign(name->flight, slot);
  news_.Add(SlotAdded{slot, name->group});
}

Post SubmissionTable::MakePost(const Submission& submission) {
  meter_.Submitted(submission.slot);
  return PostOf(submission, names_.group(submission.group).position, arenas_);
}

void SubmissionTable::PostJoin() {
  if (!join_.IsDue() || offer_.submission() != nullptr || !held_.empty() || names_.HasWaiting()) return;
  Send(join_.TakePost());
}

void SubmissionTable::PostLeave() {
  std::lock_guard<std::mutex> lock(mutex_);
  Post post;
  post.kind = Post::Kind::kLeave;
  offer_.CloseRendezvous();
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
