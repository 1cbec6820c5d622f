#ifndef FARANDOLE_SERVER_JOB_RULES_HOST_NUMBERS_H_
#define FARANDOLE_SERVER_JOB_RULES_HOST_NUMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "farandole/v1/types.pb.h"

namespace farandole {

// Numbers for the hosts of an epoch, from 0 on, in the order of their first ranks.
class HostNumbers {
 public:
  HostNumbers() = default;
  explicit HostNumbers(const v1::Epoch& epoch) {
    for (const v1::Member& member : epoch.members()) NumberOf(member.host_id());
  }

  // Of the next rank's host.
  uint32_t NumberOf(const std::string& host_id) {
    return numbers_.emplace(host_id, static_cast<uint32_t>(numbers_.size())).first->second;
  }
  // nullopt: the epoch has no rank there.
  std::optional<uint32_t> Find(const std::string& host_id) const {
    const auto found = numbers_.find(host_id);
    return found == numbers_.end() ? std::nullopt : std::optional<uint32_t>(found->second);
  }
  // By number, the host's number in an earlier epoch, or -1.
  std::vector<int32_t> NumbersIn(const HostNumbers& earlier) const {
    std::vector<int32_t> old(numbers_.size(), -1);
    for (const auto& [host_id, number] : numbers_) {
      if (const std::optional<uint32_t> found = earlier.Find(host_id)) old[number] = static_cast<int32_t>(*found);
    }
    return old;
  }

 private:
  std::map<std::string, uint32_t> numbers_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_HOST_NUMBERS_H_
