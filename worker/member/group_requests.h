#ifndef FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_
#define FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "farandole/v1/worker.pb.h"

namespace farandole {

// A worker's requests for process sets, in their order, until the coordinator has answered them. The caller's lock
// guards it.
class GroupRequests {
 public:
  // So many answers for which no call waits are kept; beyond them the oldest is forgotten.
  static constexpr size_t kMostUncollected = 256;
  // The most refusals that a restarted coordinator is told of; see Hello.refused.
  static constexpr size_t kMostRefused = 256;

  struct Request {
    v1::GroupRequest request;
    bool answered = false;
    v1::GroupAssigned answer;
  };

  // A call asks for a group of these ranks, or for the end of group `remove`, and holds the request while it waits. The
  // second: the request is new, and is to be sent. Otherwise an earlier call for the same has given up: the coordinator
  // may have its request, and matches it with those of the other ranks, so this call goes on with it.
  std::pair<std::shared_ptr<const Request>, bool> Ask(uint64_t epoch, const std::vector<int>& ranks, uint32_t remove);
  // The coordinator answers the oldest one. False: no thread has asked.
  bool Answer(const v1::GroupAssigned& answer);
  // Unanswered, in their order.
  const std::deque<std::shared_ptr<Request>>& pending() const { return pending_; }
  // The last ones.
  const std::deque<v1::GroupAssigned>& refused() const { return refused_; }

 private:
  std::deque<std::shared_ptr<Request>> pending_;
  std::deque<std::shared_ptr<Request>> uncollected_;
  uint64_t asked_ = 0;
  std::deque<v1::GroupAssigned> refused_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_
