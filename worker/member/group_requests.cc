#include "worker/member/group_requests.h"

#include <algorithm>
#include <utility>

namespace farandole {
namespace {

v1::GroupRequest Describe(uint64_t epoch, const std::vector<int>& ranks, uint32_t remove) {
  v1::GroupRequest request;
  request.set_epoch(epoch);
  request.set_remove_group(remove);
  for (const int rank : ranks) request.add_ranks(static_cast<uint32_t>(rank));
  return request;
}

bool AreSame(const v1::GroupRequest& a, const v1::GroupRequest& b) {
  return a.epoch() == b.epoch() && a.remove_group() == b.remove_group() &&
         std::equal(a.ranks().begin(), a.ranks().end(), b.ranks().begin(), b.ranks().end());
}

}  // namespace

std::pair<std::shared_ptr<const GroupRequests::Request>, bool> GroupRequests::Ask(uint64_t epoch,
                                                                                  const std::vector<int>& ranks,
                                                                                  uint32_t remove) {
  v1::GroupRequest wanted = Describe(epoch, ranks, remove);
  const auto is_free = [&](const std::shared_ptr<Request>& one) {
    return one.use_count() == 1 && AreSame(one->request, wanted);
  };
  const auto uncollected = std::find_if(uncollected_.begin(), uncollected_.end(), is_free);
  if (uncollected != uncollected_.end()) {
    const std::shared_ptr<Request> found = *uncollected;
    uncollected_.erase(uncollected);
    return {found, false};
  }
  const auto pending = std::find_if(pending_.begin(), pending_.end(), is_free);
  if (pending != pending_.end()) return {*pending, false};
  wanted.set_ordinal(++asked_);
  pending_.push_back(std::make_shared<Request>(Request{std::move(wanted), false, {}}));
  return {pending_.back(), true};
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
  if (request.use_count() > 1) return true;
  uncollected_.push_back(request);
  if (uncollected_.size() > kMostUncollected) uncollected_.pop_front();
  return true;
}

}  // namespace farandole
