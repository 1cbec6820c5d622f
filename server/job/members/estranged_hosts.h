#ifndef FARANDOLE_SERVER_JOB_MEMBERS_ESTRANGED_HOSTS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_ESTRANGED_HOSTS_H_

#include <cstddef>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"

namespace farandole {

// The hosts that the job's other hosts could not reach although the coordinator reached them. New workers on such a
// host must wait, each time twice as long, so that the other hosts can work. Only a new epoch with the host can show
// whether the network works again. Not durable. Owned by its Job.
class EstrangedHosts {
 public:
  static constexpr absl::Duration kLeast = absl::Seconds(5);
  // Below 30 s, the time for which a refused worker repeats its Join by default (its limit for an absent coordinator).
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
