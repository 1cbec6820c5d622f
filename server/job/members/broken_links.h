#ifndef FARANDOLE_SERVER_JOB_MEMBERS_BROKEN_LINKS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_BROKEN_LINKS_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"

namespace farandole {

// Pairs of hosts of one job of which one has lately complained that it cannot reach the other, in this epoch or in one
// before. A complaint of a host that is cut off counts once, against one other host, but not against each in turn. Not
// durable. Owned by its Job.
class BrokenLinks {
 public:
  // Whether a link has healed is unknown, since not all pairs of hosts talk in an epoch.
  static constexpr absl::Duration kForgotten = absl::Minutes(2);
  static constexpr size_t kMost = 4096;

  void Add(const std::string& one, const std::string& other, absl::Time now);
  // The hosts at the other ends of each host's broken links.
  absl::btree_map<std::string, absl::btree_set<std::string>> ByHost() const;
  void Clear();

 private:
  using Link = std::pair<std::string, std::string>;

  void ForgetOldest();

  absl::btree_map<Link, absl::Time> last_said_;
  absl::btree_set<std::pair<absl::Time, Link>> oldest_first_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_BROKEN_LINKS_H_
