#ifndef FARANDOLE_WORKER_COLLECTIVES_START_COLLECTIVE_H_
#define FARANDOLE_WORKER_COLLECTIVES_START_COLLECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/core/hosts.h"
#include "worker/transport/transport.h"

namespace farandole {

// Starts a collective on this rank: in the transport's own way, and where it has none, by the schedule for the hosts of
// its ranks. `transport` and `pool` outlive the operation. Errors: those of Transport::Start and ChooseSchedule.
absl::StatusOr<std::unique_ptr<Operation>> StartCollective(const Collective& collective, const Hosts& hosts,
                                                           Transport& transport, BufferPool& pool);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_START_COLLECTIVE_H_
