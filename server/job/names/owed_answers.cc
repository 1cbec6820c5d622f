#include "server/job/names/owed_answers.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

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

size_t QuestionOfName(uint32_t group, absl::string_view name) {
  return absl::Hash<std::pair<uint32_t, absl::string_view>>{}({group, name});
}

// `removed`: 0 where the group is new.
size_t QuestionOfGroup(absl::Span<const uint32_t> ranks, uint32_t removed) {
  return absl::Hash<std::pair<absl::Span<const uint32_t>, uint32_t>>{}({ranks, removed});
}

size_t QuestionOf(const v1::CoordinatorMessage& answer) {
  if (answer.has_mismatch()) return QuestionOfName(answer.mismatch().group(), answer.mismatch().name());
  const v1::Group& group = answer.group_assigned().group();
  return QuestionOfGroup(group.ranks(), group.ranks().empty() ? group.number() : 0);
}

size_t QuestionOf(const v1::WorkerMessage& message) {
  if (message.has_ready()) return QuestionOfName(message.ready().group(), message.ready().name());
  return QuestionOfGroup(message.group_request().ranks(), message.group_request().remove_group());
}

}  // namespace

OwedAnswers::OwedAnswers(std::shared_ptr<ByteAccount> bytes)
    : bytes_(std::move(bytes)), places_charge_(bytes_, ByteKind::kNames) {}

void OwedAnswers::Add(uint32_t rank, const SharedMessage& mismatch) { KeepMismatch(rank, mismatch, false); }

absl::Status OwedAnswers::AddGroups(uint32_t rank, const std::vector<SharedMessage>& groups) {
  if (groups.empty()) return absl::OkStatus();
  const int64_t bytes = kPlaceBytes * static_cast<int64_t>(groups.size());
  if (absl::Status status = places_charge_.Grow(bytes, ByteClass::kJob); !status.ok()) return status;
  for (const SharedMessage& group : groups) Insert(&of_rank_[rank].groups, {group, nullptr});
  return absl::OkStatus();
}

void OwedAnswers::Sent(uint32_t rank, const SharedMessage& message) {
  if (message->has_mismatch()) return KeepMismatch(rank, message, true);
  const auto own = message->has_slot_assigned() ? of_rank_.find(rank) : of_rank_.end();
  if (own == of_rank_.end()) return;
  const v1::SlotAssigned& slot = message->slot_assigned();
  Sequence& answers = own->second.mismatches;
  const size_t question = QuestionOfName(slot.group(), slot.name());
  std::vector<uint64_t> over;
  for (auto one = answers.by_question.lower_bound({question, 0});
       one != answers.by_question.end() && one->first == question; ++one) {
    if (IsOver(*answers.kept.at(one->second).message, slot)) over.push_back(one->second);
  }
  for (const uint64_t one : over) Erase(&answers, answers.kept.find(one));
}

void OwedAnswers::Renew(uint32_t rank) {
  const auto own = of_rank_.find(rank);
  if (own == of_rank_.end()) return;
  EraseAll(&own->second.groups);
  for (auto& [place, kept] : own->second.mismatches.kept) kept.was_sent = false;
}

bool OwedAnswers::HasCrossed(uint32_t rank, const v1::WorkerMessage& message) const {
  const auto own = of_rank_.find(rank);
  if (own == of_rank_.end() || !message.has_ready()) return false;
  const Sequence& answers = own->second.mismatches;
  return Find(answers, message, true) != answers.kept.end();
}

SharedMessage OwedAnswers::Take(uint32_t rank, const v1::WorkerMessage& message) {
  const auto own = of_rank_.find(rank);
  if (own == of_rank_.end() || (!message.has_ready() && !message.has_group_request())) return nullptr;
  Sequence& answers = message.has_ready() ? own->second.mismatches : own->second.groups;
  const auto found = Find(answers, message, false);
  if (found == answers.kept.end()) return nullptr;
  SharedMessage answer = found->second.message;
  Erase(&answers, answers.kept.find(found->first));
  return answer;
}

void OwedAnswers::KeepMismatch(uint32_t rank, const SharedMessage& message, bool was_sent) {
  Sequence& answers = of_rank_[rank].mismatches;
  MakePlace(&answers, QuestionOf(*message));
  if (answers.kept.size() >= kMostMismatches) Erase(&answers, answers.kept.begin());
  SharedCharge charge = ChargeFor(message);
  bool has_room = charge != nullptr && places_charge_.Grow(kPlaceBytes, ByteClass::kJob).ok();
  while (!has_room && !answers.kept.empty()) {
    // The rank has probably got the oldest one.
    Erase(&answers, answers.kept.begin());
    if (charge == nullptr) charge = ChargeFor(message);
    has_room = charge != nullptr && places_charge_.Grow(kPlaceBytes, ByteClass::kJob).ok();
  }
  if (has_room) Insert(&answers, {message, std::move(charge), was_sent});
}

SharedCharge OwedAnswers::ChargeFor(const SharedMessage& message) {
  if (message == last_message_ && last_charge_ != nullptr) return last_charge_;
  ByteCharge charge(bytes_, ByteKind::kNames);
  if (!charge.Grow(static_cast<int64_t>(message->SpaceUsedLong()), ByteClass::kJob).ok()) return nullptr;
  last_message_ = message;
  last_charge_ = std::make_shared<const ByteCharge>(std::move(charge));
  return last_charge_;
}

void OwedAnswers::MakePlace(Sequence* answers, size_t question) {
  const auto oldest = answers->by_question.lower_bound({question, 0});
  size_t count = 0;
  for (auto one = oldest; one != answers->by_question.end() && one->first == question; ++one) ++count;
  if (count >= kMostOfName) Erase(answers, answers->kept.find(oldest->second));
}

void OwedAnswers::Insert(Sequence* answers, Kept kept) {
  answers->by_question.emplace(QuestionOf(*kept.message), ++last_);
  answers->kept.emplace(last_, std::move(kept));
}

void OwedAnswers::Erase(Sequence* answers, absl::btree_map<uint64_t, Kept>::iterator kept) {
  answers->by_question.erase({QuestionOf(*kept->second.message), kept->first});
  answers->kept.erase(kept);
  places_charge_.Resize(places_charge_.bytes() - kPlaceBytes);
}

void OwedAnswers::EraseAll(Sequence* answers) {
  places_charge_.Resize(places_charge_.bytes() - kPlaceBytes * static_cast<int64_t>(answers->kept.size()));
  answers->kept.clear();
  answers->by_question.clear();
}

absl::btree_map<uint64_t, OwedAnswers::Kept>::const_iterator OwedAnswers::Find(const Sequence& answers,
                                                                               const v1::WorkerMessage& message,
                                                                               bool was_sent) {
  const size_t question = QuestionOf(message);
  for (auto one = answers.by_question.lower_bound({question, 0});
       one != answers.by_question.end() && one->first == question; ++one) {
    const auto kept = answers.kept.find(one->second);
    if (kept->second.was_sent == was_sent && Answers(*kept->second.message, message)) return kept;
  }
  return answers.kept.end();
}

}  // namespace farandole
