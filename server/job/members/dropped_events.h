#ifndef FARANDOLE_SERVER_JOB_MEMBERS_DROPPED_EVENTS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_DROPPED_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace farandole {

// How many events of a timeline its ranks have dropped. Of earlier epochs only the sum is kept: an elastic job may have
// any number of them. Owned by its TimelineRecord.
class DroppedEvents {
 public:
  // A rank has dropped so many in this epoch, which is the last one that was named, or a later one.
  void Set(uint64_t epoch, uint32_t rank, uint64_t dropped);
  // Of all epochs.
  uint64_t Sum() const;
  // Those of which a number is kept.
  size_t ranks() const { return of_rank_.size(); }

 private:
  uint64_t before_ = 0;
  uint64_t epoch_ = 0;
  std::map<uint32_t, uint64_t> of_rank_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_DROPPED_EVENTS_H_
