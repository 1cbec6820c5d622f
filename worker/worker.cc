#include "worker/worker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "worker/collectives/choose_schedule.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/transport/host_door.h"

namespace farandole {
namespace {

// Peers of one host have all been told of the epoch within milliseconds; who does not come for so long is gone.
constexpr absl::Duration kMeetTimeout = absl::Seconds(30);
// Working buffers kept from one batch to the next.
constexpr size_t kKeptBufferBytes = 128 << 20;

size_t PageBytes(int size) { return (EpochPage::Bytes(size) + 4095) & ~size_t{4095}; }

}  // namespace

Worker::Worker(WorkerOptions options) : options_(std::move(options)), buffers_(kKeptBufferBytes) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options, const Interrupted& interrupted) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  if (!worker->options_.coordinator.empty()) {
    if (absl::Status status = worker->Join(interrupted); !status.ok()) return status;
    return worker;
  }
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(PageBytes(1) + ShmLayout::Bytes(1));
  if (!memory.ok()) return memory.status();
  worker->memory_ = *std::move(memory);
  worker->who_ = {"rank 0"};
  worker->MakeEngine();
  return worker;
}

absl::Status Worker::Join(const Interrupted& interrupted) {
  absl::StatusOr<std::unique_ptr<HostDoor>> door = HostDoor::Open();
  if (!door.ok()) return door.status();
  absl::StatusOr<std::unique_ptr<CoordinatorLink>> link =
      CoordinatorLink::Join(options_, (*door)->endpoint(), interrupted);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  absl::StatusOr<v1::Epoch> epoch = link_->AwaitEpoch(interrupted);
  if (!epoch.ok()) {
    link_->Leave("gave up joining");
    return epoch.status();
  }
  absl::Status status = TakePlace(*epoch);
  if (status.ok()) status = Meet(*epoch, **door, interrupted);
  if (!status.ok()) {
    link_->Leave(std::string(status.message()));
    return status;
  }
  MakeEngine();
  return link_->Connect(engine_.get(), page_.get(), who_);
}

absl::Status Worker::TakePlace(const v1::Epoch& epoch) {
  place_.size = epoch.members_size();
  place_.epoch = epoch.number();
  place_.rank = -1;
  std::map<std::string, int> workers_of_host;
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    const v1::Member& member = epoch.members(rank);
    who_.push_back(absl::StrCat("rank ", rank, " (pid ", member.pid(), " on ", member.hostname(), ")"));
    if (member.incarnation() == link_->incarnation()) {
      place_.rank = rank;
      place_.local_rank = workers_of_host[member.host_id()];
    }
    ++workers_of_host[member.host_id()];
  }
  if (place_.rank < 0) return absl::InternalError("the coordinator formed an epoch of which this worker is no member");
  if (workers_of_host.size() > 1) {
    const v1::Member& first = epoch.members(0);
    const v1::Member& last = epoch.members(epoch.members_size() - 1);
    return absl::UnimplementedError(
        absl::StrCat("this version connects workers of one host: rank 0 is on ", first.hostname(), ", rank ",
                     epoch.members_size() - 1, " on ", last.hostname(),
                     " (hosts differ also where containers do not share their process and network namespaces)"));
  }
  place_.local_size = epoch.members_size();
  return absl::OkStatus();
}

absl::Status Worker::Meet(const v1::Epoch& epoch, HostDoor& door, const Interrupted& interrupted) {
  const size_t bytes = PageBytes(place_.size) + ShmLayout::Bytes(place_.size);
  HostDoor::Meeting meeting;
  meeting.secret = epoch.secret();
  meeting.epoch = epoch.number();
  meeting.deadline = absl::Now() + kMeetTimeout;
  meeting.give_up = [&] {
    if (interrupted && interrupted()) return absl::AbortedError("connecting to the peers was interrupted");
    return link_->ended();
  };
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory;
  if (place_.rank == 0) {
    memory = EpochMemory::Create(bytes);
    if (!memory.ok()) return memory.status();
    std::vector<int> peers;
    for (int rank = 1; rank < place_.size; ++rank) peers.push_back(rank);
    if (absl::Status status = door.Offer(meeting, (*memory)->fd(), std::move(peers)); !status.ok()) return status;
  } else {
    absl::StatusOr<int> fd = HostDoor::Enter(epoch.members(0).endpoints(0), meeting, place_.rank);
    if (!fd.ok()) return fd.status();
    memory = EpochMemory::Map(*fd, bytes);
    if (!memory.ok()) return memory.status();
  }
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

void Worker::MakeEngine() {
  page_ = std::make_unique<EpochPage>(memory_->data(), place_.rank, place_.size);
  std::vector<Doorbell*> bells;
  for (int rank = 0; rank < place_.size; ++rank) bells.push_back(&page_->bell(rank));
  transport_ = std::make_unique<ShmTransport>(memory_->data() + PageBytes(place_.size), place_.rank, std::move(bells));
  EngineOptions options;
  options.rank = place_.rank;
  options.size = place_.size;
  options.who = who_;
  options.fusion_bytes = options_.fusion_bytes;
  engine_ = std::make_unique<Engine>(
      std::move(options), page_.get(), [this](const Collective& collective) { return StartCollective(collective); },
      [this](const absl::Status& reason) { transport_->Abort(reason); }, link_.get());
  checkpoints_ = std::make_unique<CheckpointSession>(link_.get(), options_.job, place_.rank, place_.epoch);
}

absl::StatusOr<std::unique_ptr<Operation>> Worker::StartCollective(const Collective& collective) {
  absl::StatusOr<std::unique_ptr<Operation>> native = transport_->Start(collective);
  if (native.ok() || !absl::IsUnimplemented(native.status())) return native;
  absl::StatusOr<Schedule> schedule = ChooseSchedule(collective);
  if (!schedule.ok()) return schedule.status();
  return std::make_unique<ScheduleOperation>(collective, *std::move(schedule), *transport_, buffers_);
}

absl::Status Worker::Shutdown(const Interrupted& interrupted) {
  absl::Status status = engine_->Leave(interrupted);
  if (link_ != nullptr) link_->Leave(status.ok() ? "" : std::string(status.message()));
  engine_->Abort(absl::AbortedError("the worker has shut down"));
  return status;
}

Worker::~Worker() {
  // No event may reach the engine once it is gone, and it must not use the link once that is.
  if (link_ != nullptr) link_->Silence();
  engine_.reset();
}

absl::StatusOr<uint32_t> Worker::AddGroup(const std::vector<int>& ranks, const Interrupted& interrupted) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= place_.size || (i > 0 && ranks[i] <= ranks[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat("a process set needs ascending ranks from 0 to ", place_.size - 1,
                                                     ", not [", absl::StrJoin(ranks, ","), "]"));
    }
  }
  if (ranks.empty()) return absl::InvalidArgumentError("a process set needs at least one rank");
  if (link_ != nullptr) return link_->ChangeGroup(ranks, 0, interrupted);
  engine_->table().OnGroupAdded(++last_own_group_, ranks);
  engine_->OnTableChanged();
  return last_own_group_;
}

absl::Status Worker::RemoveGroup(uint32_t group, const Interrupted& interrupted) {
  if (group == 0) return absl::InvalidArgumentError("process set 0, all ranks, cannot be removed");
  absl::StatusOr<std::vector<int>> ranks = engine_->table().RanksOf(group);
  if (!ranks.ok()) return absl::InvalidArgumentError(ranks.status().message());
  if (!engine_->table().IsIdle(group)) {
    return absl::FailedPreconditionError(absl::StrCat("process set ", group, " of ranks [", absl::StrJoin(*ranks, ","),
                                                      "] has pending submissions on rank ", place_.rank));
  }
  if (link_ != nullptr) return link_->ChangeGroup({}, group, interrupted).status();
  engine_->table().OnGroupRemoved(group);
  engine_->OnTableChanged();
  return absl::OkStatus();
}

uint64_t Worker::coordinator_messages() const {
  if (link_ == nullptr) return 0;
  return engine_->table().counters().negotiation_messages + link_->messages();
}

}  // namespace farandole
