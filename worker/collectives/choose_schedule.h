#ifndef FARANDOLE_WORKER_COLLECTIVES_CHOOSE_SCHEDULE_H_
#define FARANDOLE_WORKER_COLLECTIVES_CHOOSE_SCHEDULE_H_

#include "absl/status/statusor.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"
#include "worker/core/collective.h"
#include "worker/core/hosts.h"

namespace farandole {

// This rank's schedule of a collective: the first row of the table in
// choose_schedule.cc that fits its op, number of ranks and bytes. It depends only on values that are equal on all ranks
// of the group and on the position, so that the ranks' schedules match. Errors, the same on all ranks:
//   INVALID_ARGUMENT  the average of bool has no meaning, or the collective
//                     contradicts itself (counts, position or root)
//   UNIMPLEMENTED     no schedule for this op or reduction
absl::StatusOr<Schedule> ChooseSchedule(const Collective& collective);

// The same where the epoch's ranks are on `hosts`: a group whose ranks share one
// gets the schedule above, others one from the table for several hosts. On more
// than `most_direct_hosts`, hosts do not all exchange with each other.
absl::StatusOr<Schedule> ChooseSchedule(const Collective& collective, const Hosts& hosts,
                                        int most_direct_hosts = GroupShape::kMostDirectHosts);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_CHOOSE_SCHEDULE_H_
