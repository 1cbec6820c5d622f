#ifndef FARANDOLE_SERVER_JOB_MEMBERS_FENCE_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_FENCE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace farandole {

// The incarnations that have had their time, each with the sentence that says why: they may not come back. Owned by its
// Job. Bounded: beyond kMostIncarnations the oldest are forgotten; such a worker is then simply unknown.
class Fence {
 public:
  static constexpr size_t kMostIncarnations = 65536;

  void Shut(const std::string& incarnation, const std::string& reason);
  // The same of one that waited for a place when its job finished: it ends in order.
  void Dismiss(const std::string& incarnation, const std::string& reason);
  // Null: not fenced.
  const std::string* ReasonFor(const std::string& incarnation) const;
  size_t size() const { return oldest_first_.size(); }
  bool IsDismissed(const std::string& incarnation) const { return dismissed_.contains(incarnation); }

 private:
  // Shared, because one reason stands for all workers of an epoch.
  std::shared_ptr<const std::string> last_reason_;
  absl::flat_hash_map<std::string, std::shared_ptr<const std::string>> reasons_;
  absl::flat_hash_set<std::string> dismissed_;
  std::deque<std::string> oldest_first_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_FENCE_H_
