#ifndef FARANDOLE_SERVER_JOB_MEMBERS_ESTRANGED_HOSTS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_ESTRANGED_HOSTS_H_

#include <cstddef>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"

namespace farandole {

// The hosts of one job that its other hosts could not reach although the coordinator did. Newcomers on them wait for a
// time that doubles each time it happens again, so that the others can work meanwhile: whether the network has healed
// shows only by trying, in an epoch. Not durable. Owned by its Job.
class EstrangedHosts {
 public:
  static constexpr absl::Duration kLeast = absl::Seconds(5);
  // A worker asks again for as long as it bears a coordinator's absence, which is 30 s.
  static constexpr absl::Duration kMost = absl::Seconds(20);
  static constexpr size_t kMostHosts = 1024;

  void Add(const std::string& host_id, absl::Time now);
  // "its host could not be reached by others and waits for 5 s"; "": it need not wait.
  std::string Sentence(const std::string& host_id, absl::Time now) const;
  void Clear() { hosts_.clear(); }

 private:
  struct Wait {
    absl::Time until;
    absl::Duration length;
  };
  absl::btree_map<std::string, Wait> hosts_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_ESTRANGED_HOSTS_H_
