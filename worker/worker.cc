#include "worker/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "worker/collectives/start_collective.h"

namespace farandole {
namespace {

// Peers have all been told of the epoch within milliseconds; who does not come for so long is gone or out of reach.
// Of a program's words for its failure.
constexpr size_t kMostFailureBytes = 1024;
constexpr absl::Duration kMeetTimeout = absl::Seconds(30);
// Working buffers kept from one batch to the next.
constexpr size_t kKeptBufferBytes = 128 << 20;

}  // namespace

Worker::Worker(WorkerOptions options) : options_(std::move(options)), buffers_(kKeptBufferBytes) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options, const Interrupted& interrupted) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  if (!worker->options_.coordinator.empty()) {
    if (absl::Status status = worker->Join(interrupted); !status.ok()) return status;
    return worker;
  }
  absl::StatusOr<std::unique_ptr<Connections>> alone = Connections::Alone();
  if (!alone.ok()) return alone.status();
  worker->connections_ = *std::move(alone);
  worker->who_ = {"rank 0"};
  worker->MakeEngine();
  return worker;
}

absl::Status Worker::Join(const Interrupted& interrupted) {
  absl::StatusOr<std::unique_ptr<Connections>> connections = Connections::Open(options_);
  if (!connections.ok()) return connections.status();
  connections_ = *std::move(connections);
  absl::StatusOr<std::unique_ptr<CoordinatorLink>> link =
      CoordinatorLink::Join(options_, connections_->Endpoints(), interrupted);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  absl::StatusOr<v1::Epoch> epoch = link_->AwaitEpoch(interrupted);
  if (!epoch.ok()) {
    link_->Leave("gave up joining");
    return epoch.status();
  }
  absl::Status status = TakePlace(*epoch);
  if (status.ok()) status = Meet(*epoch, interrupted);
  if (!status.ok()) {
    link_->Leave(std::string(status.message()));
    return status;
  }
  MakeEngine();
  return link_->Connect(engine_.get(), &connections_->channel(), hosts_, who_);
}

absl::Status Worker::TakePlace(const v1::Epoch& epoch) {
  place_.size = epoch.members_size();
  place_.epoch = epoch.number();
  place_.rank = -1;
  std::vector<std::string> host_ids;
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    const v1::Member& member = epoch.members(rank);
    who_.push_back(absl::StrCat("rank ", rank, " (pid ", member.pid(), " on ", member.hostname(), ")"));
    host_ids.push_back(member.host_id());
    if (member.incarnation() == link_->incarnation()) place_.rank = rank;
    if (member.endpoints().empty()) {
      return absl::InternalError(absl::StrCat("the coordinator does not say where ", who_.back(), " is reached"));
    }
  }
  if (place_.rank < 0) return absl::InternalError("the coordinator formed an epoch of which this worker is no member");
  absl::StatusOr<Hosts> hosts = Hosts::WithIds(host_ids);
  if (!hosts.ok()) return hosts.status();
  hosts_ = *std::move(hosts);
  const int own_host = hosts_.HostOf(place_.rank);
  place_.local_rank = hosts_.LocalIndex(place_.rank);
  place_.local_size = hosts_.RanksOn(own_host);
  // Among the hosts that have a rank with this local rank.
  place_.cross_size = 0;
  for (int host = 0; host < hosts_.count(); ++host) {
    if (hosts_.RanksOn(host) != place_.local_size) place_.is_homogeneous = false;
    if (hosts_.RanksOn(host) <= place_.local_rank) continue;
    if (host == own_host) place_.cross_rank = place_.cross_size;
    ++place_.cross_size;
  }
  return absl::OkStatus();
}

absl::Status Worker::Meet(const v1::Epoch& epoch, const Interrupted& interrupted) {
  Connections::Meeting meeting;
  meeting.rank = place_.rank;
  meeting.hosts = hosts_;
  meeting.who = who_;
  for (const v1::Member& member : epoch.members()) {
    meeting.endpoints.emplace_back(member.endpoints().begin(), member.endpoints().end());
  }
  meeting.epoch = epoch.number();
  meeting.secret = epoch.secret();
  meeting.deadline = absl::Now() + kMeetTimeout;
  meeting.give_up = [&] {
    if (interrupted && interrupted()) return absl::AbortedError("connecting to the peers was interrupted");
    return link_->ended();
  };
  meeting.on_lost = [this](int peer, const std::string& evidence) {
    link_->ReportLost(peer, evidence, absl::AbortedError(absl::StrCat(who_[peer], " was lost: ", evidence)));
  };
  return connections_->Meet(std::move(meeting));
}

void Worker::MakeEngine() {
  EngineOptions options;
  options.rank = place_.rank;
  options.size = place_.size;
  options.who = who_;
  options.fusion_bytes = options_.fusion_bytes;
  options.arenas = &connections_->arenas();
  engine_ = std::make_unique<Engine>(
      std::move(options), &connections_->channel(),
      [this](const Collective& collective) {
        return StartCollective(collective, connections_->bulk_hosts(), connections_->transport(), buffers_);
      },
      [this](const absl::Status& reason) { connections_->transport().Abort(reason); }, link_.get());
  arenas_ = std::make_unique<Arenas>(&connections_->arenas(), connections_.get(), engine_.get(), who_);
  checkpoints_ = std::make_unique<CheckpointSession>(link_.get(), options_.job, place_.rank, place_.epoch);
}

void Worker::Fail(const std::string& words) {
  size_t bytes = std::min(words.size(), kMostFailureBytes);
  // Not within a character.
  while (bytes < words.size() && bytes > 0 && (words[bytes] & 0xC0) == 0x80) --bytes;
  failure_ = bytes == 0 ? "it does not say how" : words.substr(0, bytes);
  engine_->Abort(absl::AbortedError(absl::StrCat(who_[place_.rank], " failed: ", failure_)));
}

absl::Status Worker::Shutdown(const Interrupted& interrupted) {
  absl::Status status = engine_->Leave(interrupted);
  if (link_ != nullptr) link_->Leave(status.ok() ? "" : std::string(status.message()), failure_);
  engine_->Abort(absl::AbortedError(absl::StrCat(who_[place_.rank], " has shut down")));
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
