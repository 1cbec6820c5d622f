#ifndef FARANDOLE_WORKER_CORE_LINEAGE_H_
#define FARANDOLE_WORKER_CORE_LINEAGE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace farandole {

// The state that a process carries from one epoch of its job to the next. The code that starts its workers, one after
// the other, owns it.
struct Lineage {
  // The incarnation that the process had in the last epoch of which it was a member; "": it was in none.
  std::string predecessor;
  // The secret that proves it, and that of the incarnation which the process has now; "": the other side asks for none.
  std::string predecessor_secret;
  std::string secret;
  // Whether this process writes the lines about the whole job to the log while no epoch has given it a rank.
  bool speaks = false;
  // How long the coordinator may be unreachable at a join; zero: the join timeout.
  absl::Duration patience;
  // A number above those of all handles that were given, so that none is given twice.
  int64_t next_handles = 0;
  // Set where a start has failed: the epoch ended before its peers had met, and the job goes on.
  bool may_go_on = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_LINEAGE_H_
