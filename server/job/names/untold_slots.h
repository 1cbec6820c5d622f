#ifndef FARANDOLE_SERVER_JOB_NAMES_UNTOLD_SLOTS_H_
#define FARANDOLE_SERVER_JOB_NAMES_UNTOLD_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/names/group_table.h"
#include "server/job/names/negotiation.h"

namespace farandole {

// The slots that rank 0, which has opened another stream, does not know: it orders the batches of groups that it is not
// in, and sends no Ready for their slots which could be repeated. There may be tens of thousands, so that they are told
// in pieces. Owned by its RunningEpoch.
class UntoldSlots {
 public:
  // None.
  UntoldSlots() = default;
  // All that `negotiation` has given so far, except for those that `hello` names.
  UntoldSlots(const v1::Hello& hello, const Negotiation& negotiation);

  // The next ones, as they are now, at most `most` of them; none: that was all.
  std::vector<v1::SlotAssigned> Take(const Negotiation& negotiation, const GroupTable& groups, size_t most);
  bool IsEmpty() const { return next_ == end_; }

 private:
  absl::flat_hash_set<uint32_t> known_;
  // The numbers that are left.
  uint32_t next_ = 0;
  uint32_t end_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_UNTOLD_SLOTS_H_
