#include "server/job/names/owed_answers.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace farandole {
namespace {

bool Answers(const v1::Mismatch& mismatch, const v1::Ready& ready) {
  return mismatch.name() == ready.name() && mismatch.group() == ready.group() &&
         mismatch.disputed_slot() == ready.disputed_slot() && mismatch.attempt() == ready.attempt() &&
         (ready.disputed_slot() != 0 ||
          (mismatch.next_ordinal() == ready.ordinal() + 1 && mismatch.joins() == ready.joins()));
}

bool Answers(const v1::GroupAssigned& assigned, const v1::GroupRequest& request) {
  if (!absl::c_equal(assigned.group().ranks(), request.ranks())) return false;
  const bool is_new_group = !assigned.group().ranks().empty();
  return is_new_group ? request.remove_group() == 0 : request.remove_group() == assigned.group().number();
}

bool Answers(const v1::CoordinatorMessage& answer, const v1::WorkerMessage& message) {
  if (answer.has_mismatch()) return message.has_ready() && Answers(answer.mismatch(), message.ready());
  return message.has_group_request() && Answers(answer.group_assigned(), message.group_request());
}

// The mismatches of a name that had no slot.
bool IsOver(const v1::CoordinatorMessage& answer, const v1::SlotAssigned& slot) {
  return answer.has_mismatch() && answer.mismatch().disputed_slot() == 0 && answer.mismatch().name() == slot.name() &&
         answer.mismatch().group() == slot.group();
}

template <typename Answers>
void DropOver(Answers* answers, const v1::SlotAssigned& slot) {
  const auto is_over = [&slot](const auto& answer) { return IsOver(*answer, slot); };
  answers->erase(std::remove_if(answers->begin(), answers->end(), is_over), answers->end());
}

}  // namespace

void OwedAnswers::Add(uint32_t rank, const SharedAnswer& message) {
  if (message->has_mismatch() || message->has_group_assigned()) answers_[rank].push_back(message);
}

void OwedAnswers::Sent(uint32_t rank, const SharedAnswer& message) {
  if (message->has_slot_assigned()) {
    if (const auto it = answers_.find(rank); it != answers_.end()) DropOver(&it->second, message->slot_assigned());
    if (const auto it = sent_.find(rank); it != sent_.end()) DropOver(&it->second, message->slot_assigned());
  }
  if (!message->has_mismatch()) return;
  std::deque<SharedAnswer>& sent = sent_[rank];
  sent.push_back(message);
  if (sent.size() > kMostSent) sent.pop_front();
}

void OwedAnswers::Renew(uint32_t rank) {
  std::vector<SharedAnswer>& owed = answers_[rank];
  const auto is_group = [](const SharedAnswer& answer) { return answer->has_group_assigned(); };
  owed.erase(std::remove_if(owed.begin(), owed.end(), is_group), owed.end());
  const auto it = sent_.find(rank);
  if (it == sent_.end()) return;
  owed.insert(owed.begin(), it->second.begin(), it->second.end());
  sent_.erase(it);
}

bool OwedAnswers::HasCrossed(uint32_t rank, const v1::WorkerMessage& message) const {
  const auto it = sent_.find(rank);
  return it != sent_.end() &&
         absl::c_any_of(it->second, [&message](const SharedAnswer& answer) { return Answers(*answer, message); });
}

OwedAnswers::SharedAnswer OwedAnswers::Take(uint32_t rank, const v1::WorkerMessage& message) {
  const auto it = answers_.find(rank);
  if (it == answers_.end()) return nullptr;
  std::vector<SharedAnswer>& owed = it->second;
  const auto found =
      absl::c_find_if(owed, [&message](const SharedAnswer& answer) { return Answers(*answer, message); });
  if (found == owed.end()) return nullptr;
  SharedAnswer answer = std::move(*found);
  owed.erase(found);
  if (owed.empty()) answers_.erase(it);
  return answer;
}

}  // namespace farandole
