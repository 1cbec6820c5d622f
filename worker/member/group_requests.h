#ifndef FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_
#define FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "farandole/v1/worker.pb.h"

namespace farandole {

// A worker's requests for process sets, in their order, until the coordinator has answered them. The caller's lock
// guards it.
class GroupRequests {
 public:
  // Of as many refusals a restarted coordinator hears; see Hello.refused.
  static constexpr size_t kMostRefused = 256;

  struct Request {
    v1::GroupRequest request;
    bool answered = false;
    v1::GroupAssigned answer;
  };

  // Asks for a group of these ranks, or for the end of group `remove`. Shared with the waiting caller.
  std::shared_ptr<const Request> Add(uint64_t epoch, const std::vector<int>& ranks, uint32_t remove);
  // The coordinator answers the oldest one. False: no thread has asked.
  bool Answer(const v1::GroupAssigned& answer);
  // Unanswered, in their order.
  const std::deque<std::shared_ptr<Request>>& pending() const { return pending_; }
  // The last ones.
  const std::deque<v1::GroupAssigned>& refused() const { return refused_; }

 private:
  std::deque<std::shared_ptr<Request>> pending_;
  uint64_t asked_ = 0;
  std::deque<v1::GroupAssigned> refused_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_GROUP_REQUESTS_H_
