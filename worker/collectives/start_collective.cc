#include "worker/collectives/start_collective.h"

#include <algorithm>
#include <utility>

#include "worker/collectives/choose_schedule.h"
#include "worker/collectives/schedule_operation.h"

namespace farandole {

absl::StatusOr<std::unique_ptr<Operation>> StartCollective(const Collective& collective, const Hosts& hosts,
                                                           Transport& transport, BufferPool& pool) {
  absl::StatusOr<std::unique_ptr<Operation>> native = transport.Start(collective);
  if (!absl::IsUnimplemented(native.status())) return native;
  const int most_direct_hosts = std::min(GroupShape::kMostDirectHosts, transport.most_direct_hosts());
  absl::StatusOr<Schedule> schedule = ChooseSchedule(collective, hosts, most_direct_hosts);
  if (!schedule.ok()) return schedule.status();
  return std::make_unique<ScheduleOperation>(collective, *std::move(schedule), transport, pool);
}

}  // namespace farandole
