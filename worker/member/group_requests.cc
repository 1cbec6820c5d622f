#include "worker/member/group_requests.h"

#include <utility>

namespace farandole {

std::shared_ptr<const GroupRequests::Request> GroupRequests::Add(uint64_t epoch, const std::vector<int>& ranks,
                                                                 uint32_t remove) {
  auto added = std::make_shared<Request>();
  added->request.set_epoch(epoch);
  added->request.set_remove_group(remove);
  added->request.set_ordinal(++asked_);
  for (const int rank : ranks) added->request.add_ranks(static_cast<uint32_t>(rank));
  pending_.push_back(added);
  return added;
}

bool GroupRequests::Answer(const v1::GroupAssigned& answer) {
  if (pending_.empty()) return false;
  const std::shared_ptr<Request> request = std::move(pending_.front());
  pending_.pop_front();
  if (!answer.error().empty()) {
    refused_.push_back(answer);
    if (refused_.size() > kMostRefused) refused_.pop_front();
  }
  request->answer = answer;
  request->answered = true;
  return true;
}

}  // namespace farandole
