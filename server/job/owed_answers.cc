#include "server/job/owed_answers.h"

#include "absl/algorithm/container.h"

namespace farandole {
namespace {

bool Answers(const v1::GroupAssigned& assigned, const v1::GroupRequest& request) {
  if (!absl::c_equal(assigned.group().ranks(), request.ranks())) return false;
  const bool is_new_group = assigned.error().empty() && !assigned.group().ranks().empty();
  return is_new_group ? request.remove_group() == 0 : request.remove_group() == assigned.group().number();
}

bool Answers(const v1::CoordinatorMessage& answer, const v1::WorkerMessage& message) {
  return message.has_group_request() && Answers(answer.group_assigned(), message.group_request());
}

}  // namespace

void OwedAnswers::Add(uint32_t rank, const v1::CoordinatorMessage& message) {
  if (message.has_group_assigned()) answers_[rank].push_back(message);
}

std::optional<v1::CoordinatorMessage> OwedAnswers::Take(uint32_t rank, const v1::WorkerMessage& message) {
  const auto it = answers_.find(rank);
  if (it == answers_.end()) return std::nullopt;
  std::vector<v1::CoordinatorMessage>& owed = it->second;
  const auto found =
      absl::c_find_if(owed, [&message](const v1::CoordinatorMessage& answer) { return Answers(answer, message); });
  if (found == owed.end()) return std::nullopt;
  v1::CoordinatorMessage answer = std::move(*found);
  owed.erase(found);
  if (owed.empty()) answers_.erase(it);
  return answer;
}

}  // namespace farandole
