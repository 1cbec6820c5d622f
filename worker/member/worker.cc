#include "worker/member/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/steady_time.h"
#include "base/text/utf8_text.h"
#include "base/usable_cores.h"
#include "worker/collectives/start_collective.h"
#include "worker/control/coordinator_channel.h"
#include "worker/core/host_identity.h"
#include "worker/launch/launch_siblings.h"

namespace farandole {
namespace {

// Of a program's words for its failure.
constexpr size_t kMostFailureBytes = 1024;
// EngineOptions::checks_before_yield (docs/decisions/0009-small-messages.md).
constexpr int kChecksOnSharedCores = 3;
// Peers learn of the epoch within milliseconds of each other; a peer that does not come for so long is gone or out of
// reach.
constexpr absl::Duration kMeetTimeout = absl::Seconds(30);
// Where the job can go on without them. By then the coordinator has counted silent workers as lost.
constexpr absl::Duration kElasticMeetTimeout = absl::Seconds(10);
// How long the coordinator may need to say that the epoch has ended, of which this worker has seen it: longer than it
// takes to miss a host.
constexpr absl::Duration kWordLimit = absl::Seconds(5);
// Epoch.max_slots of a coordinator that does not say it.
constexpr uint32_t kOlderMaxSlots = 4096;
// Working buffers kept from one batch to the next.
constexpr size_t kKeptBufferBytes = 128 << 20;

}  // namespace

Worker::Worker(WorkerOptions options, const LastingParts& lasting)
    : options_(std::move(options)),
      lasting_(lasting),
      flight_(FlightMemory::Open(options_.flight)),
      buffers_(kKeptBufferBytes) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options, Lineage* lineage,
                                                      const LastingParts& lasting, const Interrupted& interrupted) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options), lasting));
  lineage->may_go_on = false;
  if (!worker->options_.coordinator.empty()) {
    if (absl::Status status = worker->Join(lineage, interrupted); !status.ok()) return status;
    return worker;
  }
  absl::StatusOr<std::unique_ptr<Connections>> alone = Connections::Alone();
  if (!alone.ok()) return alone.status();
  worker->connections_ = *std::move(alone);
  worker->who_ = {"rank 0"};
  // If there is none, GpuCollectives says why.
  worker->gpu_transport_ = FindGpuTransport(worker->options_.nccl_library, worker->options_.nccl_blocks);
  worker->MakeEngine(lineage->next_handles, EngineOptions().max_slots);
  return worker;
}

absl::Status Worker::Join(Lineage* lineage, const Interrupted& interrupted) {
  // The epoch's secret, from which all keys follow, comes by that connection.
  if (options_.encrypts && options_.ca_pem.empty() && !IsOfThisHost(options_.coordinator)) {
    return absl::InvalidArgumentError(absl::StrCat("FARANDOLE_ENCRYPT is 1, but coordinator ", options_.coordinator,
                                                   " is not on this host, and without FARANDOLE_CA_FILE its secrets "
                                                   "would travel in the clear"));
  }
  absl::StatusOr<std::unique_ptr<Connections>> connections = Connections::Open(options_);
  if (!connections.ok()) return connections.status();
  connections_ = *std::move(connections);
  absl::StatusOr<std::unique_ptr<CoordinatorLink>> link =
      CoordinatorLink::Join(options_, *lineage, connections_->Endpoints(), interrupted);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  absl::StatusOr<v1::Epoch> epoch = AwaitEpoch(interrupted);
  if (!epoch.ok()) {
    link_->Leave("gave up joining");
    return epoch.status();
  }
  lineage->predecessor = link_->incarnation();
  lineage->predecessor_secret = link_->secret();
  absl::Status status = BecomeMember(*epoch, lineage->next_handles, interrupted);
  if (!status.ok()) Forsake(status, lineage, interrupted);
  return status;
}

absl::StatusOr<v1::Epoch> Worker::AwaitEpoch(const Interrupted& interrupted) {
  if (!options_.launched.has_value()) return link_->AwaitEpoch(interrupted);
  LaunchSiblings siblings(*options_.launched, HostName());
  return link_->AwaitEpoch([&] {
    for (const LaunchSiblings::Ended& ended : siblings.FindEnded(SteadyNow()))
      link_->TellEnded(ended.launch_index, ended.sentence);
    return interrupted && interrupted();
  });
}

absl::Status Worker::BecomeMember(const v1::Epoch& epoch, int64_t next_handles, const Interrupted& interrupted) {
  if (absl::Status placed = TakePlace(epoch); !placed.ok()) return placed;
  if (absl::Status watched = link_->Watch(hosts_, who_); !watched.ok()) return watched;
  if (absl::Status met = Meet(epoch, interrupted); !met.ok()) return met;
  MakeEngine(next_handles, epoch.max_slots() == 0 ? kOlderMaxSlots : epoch.max_slots());
  link_->Connect(
      engine_.get(), &connections_->channel(), gpus_.get(),
      [connections = connections_.get()] { return connections->Sending(); }, lasting_);
  return absl::OkStatus();
}

// Where the peers could not be met, the coordinator may know better why, and whether the job goes on.
void Worker::Forsake(const absl::Status& reason, Lineage* lineage, const Interrupted& interrupted) {
  const std::string words(reason.message());
  // No later epoch changes this worker's settings.
  if (absl::IsInvalidArgument(reason)) return link_->Leave(words, words);
  if (!options_.is_elastic()) return link_->Leave(words);
  const bool gives_up = interrupted && interrupted();
  if (!gives_up) AwaitWord(interrupted).IgnoreError();
  lineage->may_go_on = !gives_up && link_->course() == CoordinatorLink::Course::kGoesOn;
  lineage->speaks = link_->LeadsSurvivors();
  // It cannot go on, and so leaves for good; the others can do without it.
  if (!lineage->may_go_on) link_->Leave(words, words);
}

absl::Status Worker::TakePlace(const v1::Epoch& epoch) {
  rank_numbers_.size = epoch.members_size();
  rank_numbers_.epoch = epoch.number();
  rank_numbers_.rank = -1;
  std::vector<std::string> host_ids;
  std::vector<int> slots;
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    const v1::Member& member = epoch.members(rank);
    who_.push_back(absl::StrCat("rank ", rank, " (pid ", member.pid(), " on ", member.hostname(), ")"));
    host_ids.push_back(member.host_id());
    slots.push_back(static_cast<int>(member.local_slot()));
    if (member.incarnation() == link_->incarnation()) rank_numbers_.rank = rank;
    if (member.endpoints().empty()) {
      return absl::InternalError(absl::StrCat("the coordinator does not say where ", who_.back(), " is reached"));
    }
  }
  if (rank_numbers_.rank < 0)
    return absl::InternalError("the coordinator formed an epoch of which this worker is no member");
  if (absl::Status agreed = AgreeOnEncryption(epoch); !agreed.ok()) return agreed;
  absl::StatusOr<Hosts> hosts = Hosts::WithIds(host_ids);
  if (!hosts.ok()) return hosts.status();
  hosts_ = *std::move(hosts);
  AgreeOnGpuTransport(epoch);
  const int own_host = hosts_.HostOf(rank_numbers_.rank);
  rank_numbers_.local_size = hosts_.RanksOn(own_host);
  const absl::Span<const int> here = absl::MakeSpan(slots).subspan(hosts_.Leader(own_host), rank_numbers_.local_size);
  rank_numbers_.local_rank = LocalRanks(here)[hosts_.LocalIndex(rank_numbers_.rank)];
  // Among the hosts that have a rank with this local rank.
  rank_numbers_.cross_size = 0;
  for (int host = 0; host < hosts_.count(); ++host) {
    if (hosts_.RanksOn(host) != rank_numbers_.local_size) rank_numbers_.is_homogeneous = false;
    if (hosts_.RanksOn(host) <= rank_numbers_.local_rank) continue;
    if (host == own_host) rank_numbers_.cross_rank = rank_numbers_.cross_size;
    ++rank_numbers_.cross_size;
  }
  return absl::OkStatus();
}

absl::Status Worker::AgreeOnEncryption(const v1::Epoch& epoch) const {
  const auto encrypts = [&epoch](int rank) {
    const auto& endpoints = epoch.members(rank).endpoints();
    return Connections::Encrypts(std::vector<std::string>(endpoints.begin(), endpoints.end()));
  };
  // Ranks without an address on a network say nothing.
  int first = 0;
  while (first < rank_numbers_.size && !encrypts(first).has_value()) ++first;
  int other = -1;
  for (int rank = first + 1; rank < rank_numbers_.size; ++rank) {
    const std::optional<bool> said = encrypts(rank);
    if (!said.has_value() || *said == *encrypts(first)) continue;
    if (rank == rank_numbers_.rank || other < 0) other = rank;
  }
  if (other < 0 || (options_.is_elastic() && other != rank_numbers_.rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("FARANDOLE_ENCRYPT is ", *encrypts(first) ? 1 : 0, " on ", who_[first],
                                                 ", and ", *encrypts(other) ? 1 : 0, " on ", who_[other],
                                                 "; all ranks must have the same"));
}

void Worker::AgreeOnGpuTransport(const v1::Epoch& epoch) {
  if (options_.encrypts && hosts_.count() > 1) {
    gpu_transport_ =
        absl::FailedPreconditionError("FARANDOLE_ENCRYPT is 1, and what NCCL sends to other hosts is not encrypted");
    return;
  }
  const auto name = [](const v1::Member& member) {
    return member.gpu_transport().empty() ? std::string("nothing") : member.gpu_transport();
  };
  gpu_transport_ = epoch.members(0).gpu_transport();
  for (int rank = 0; rank < rank_numbers_.size; ++rank) {
    const v1::Member& member = epoch.members(rank);
    if (!member.gpu_transport().empty() && member.gpu_transport() == epoch.members(0).gpu_transport()) continue;
    gpu_transport_ = absl::FailedPreconditionError(
        absl::StrCat("GPUs of this job exchange no data: on ", who_[rank], " they do so by ", name(member),
                     rank == 0 ? "" : absl::StrCat(", on ", who_[0], " by ", name(epoch.members(0)))));
    return;
  }
}

absl::StatusOr<GpuCollectives*> Worker::gpus() {
  if (gpu_transport_.ok()) return gpus_.get();
  const absl::Status here = FindGpuTransport(options_.nccl_library, options_.nccl_blocks).status();
  return absl::FailedPreconditionError(
      absl::StrCat(gpu_transport_.status().message(), here.ok() ? "" : "; here: ", here.message()));
}

absl::Status Worker::Meet(const v1::Epoch& epoch, const Interrupted& interrupted) {
  Connections::EpochTerms terms;
  terms.rank = rank_numbers_.rank;
  terms.hosts = hosts_;
  terms.who = who_;
  for (const v1::Member& member : epoch.members()) {
    terms.endpoints.emplace_back(member.endpoints().begin(), member.endpoints().end());
  }
  terms.epoch = epoch.number();
  terms.secret = epoch.secret();
  if (hosts_.count() > 1) proving_key_ = HmacSha256(epoch.secret(), "farandole proofs 1");
  terms.deadline = SteadyNow() + (options_.is_elastic() ? kElasticMeetTimeout : kMeetTimeout);
  terms.give_up = [&] {
    if (interrupted && interrupted()) return absl::AbortedError("connecting to the peers was interrupted");
    return link_->ended();
  };
  terms.on_lost = [this](int peer, const std::string& evidence) {
    link_->ReportLost(peer, evidence, absl::AbortedError(absl::StrCat(who_[peer], " was lost: ", evidence)));
  };
  return connections_->Connect(std::move(terms));
}

void Worker::MakeEngine(int64_t next_handles, uint32_t max_slots) {
  EngineOptions options;
  options.rank = rank_numbers_.rank;
  options.size = rank_numbers_.size;
  options.who = who_;
  options.fusion_bytes = options_.fusion_bytes;
  options.has_own_core = rank_numbers_.local_size <= UsableCores();
  if (!options.has_own_core) options.checks_before_yield = kChecksOnSharedCores;
  options.arenas = &connections_->arenas();
  options.next_handles = next_handles;
  options.max_slots = max_slots;
  options.timeline = lasting_.timeline;
  options.flight = flight_->page();
  options.epoch = rank_numbers_.epoch;
  const auto start = [this](const Collective& collective) {
    return StartCollective(collective, connections_->bulk_hosts(), connections_->transport(), buffers_);
  };
  const NcclTransport::Sets sets = {
      [this] { return options_.nccl_splits ? engine_->table().answers().Groups() : ProcessSets(); },
      [this](uint32_t group) { return engine_->table().WasRemoved(group); }};
  const auto prove = [this](absl::string_view label, absl::string_view bytes) { return Prove(label, bytes); };
  gpus_ = std::make_unique<GpuCollectives>(GpuLibraries::OfMachine(options_.nccl_library), start, sets, prove,
                                           rank_numbers_.local_rank, lasting_.timeline->GpuTimes());
  engine_ = std::make_unique<Engine>(
      std::move(options), &connections_->channel(),
      [this, start](const Collective& collective) {
        return collective.gpu_batch == nullptr ? start(collective) : gpus_->Start(collective);
      },
      [this](const absl::Status& reason) {
        connections_->transport().Abort(reason);
        gpus_->Abort(reason);
      },
      link_.get());
  arenas_ = std::make_unique<Arenas>(&connections_->arenas(), connections_.get(), engine_.get(), who_);
  checkpoint_question_ = std::make_unique<CheckpointQuestion>(engine_.get(), link_.get(), rank_numbers_.size);
  checkpoints_ =
      std::make_unique<CheckpointSession>(link_.get(), options_.job, rank_numbers_.rank, rank_numbers_.epoch);
}

void Worker::Fail(const std::string& words) {
  const std::string valid = ReplaceInvalidUtf8(words);
  const std::string failure = valid.empty() ? "it does not say how" : std::string(CutUtf8(valid, kMostFailureBytes));
  {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    if (failure_.empty()) failure_ = failure;
  }
  engine_->Abort(absl::AbortedError(absl::StrCat(who_[rank_numbers_.rank], " failed: ", failure)));
}

std::string Worker::failure() const {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_;
}

// Work enqueued there counts as complete, but peers may need this rank's part of it.
void Worker::FinishOnGpu(const Interrupted& interrupted) {
  gpus_->Finish([this, &interrupted] { return GivesUp(interrupted); });
}

bool Worker::GivesUp(const Interrupted& interrupted) {
  return (interrupted && interrupted()) || !engine_->table().ended().ok();
}

absl::Status Worker::Shutdown(const Interrupted& interrupted) {
  absl::Status status = engine_->Leave(interrupted);
  if (status.ok()) FinishOnGpu(interrupted);
  if (status.ok()) status = checkpoints_->AwaitCommit(interrupted);
  if (link_ != nullptr) {
    const std::string reason(status.message());
    const std::string failed = failure();
    // Peers that still need this rank do not learn of its end from the log.
    link_->Leave(reason, failed.empty() ? reason : failed, /*returns=*/false, engine_->table().left());
  }
  engine_->Abort(absl::AbortedError(absl::StrCat(who_[rank_numbers_.rank], " has shut down")));
  return status;
}

// While the coordinator is away it can say nothing; the link's own limit ends that.
absl::Status Worker::AwaitWord(const Interrupted& interrupted) const {
  absl::Status ended;
  do {
    ended = link_->AwaitEnd(SteadyNow() + kWordLimit, interrupted);
  } while (ended.ok() && !link_->conversation().IsAttached() && !(interrupted && interrupted()));
  return ended;
}

absl::Status Worker::MoveOn(Lineage* lineage, bool* job_over, const Interrupted& interrupted) {
  if (absl::Status left = engine_->Leave(interrupted); !left.ok()) return left;
  FinishOnGpu(interrupted);
  const absl::Status ended = engine_->table().ended();
  engine_->Abort(absl::AbortedError(
      absl::StrCat(who_[rank_numbers_.rank], " has left epoch ", rank_numbers_.epoch, " for the next")));
  lineage->next_handles = engine_->table().next_handles();
  if (link_ == nullptr) return absl::OkStatus();
  const std::string failed = failure();
  if (ended.ok() || !failed.empty()) {
    link_->Leave("", failed, /*returns=*/true);
  } else if (AwaitWord(interrupted).ok()) {
    // Only this worker knows; tell its peers.
    link_->Leave("", std::string(ended.message()), /*returns=*/true);
  }
  lineage->speaks = link_->LeadsSurvivors();
  switch (link_->course()) {
    case CoordinatorLink::Course::kRuns:
    case CoordinatorLink::Course::kGoesOn:
      return absl::OkStatus();
    case CoordinatorLink::Course::kFailed:
      *job_over = true;
      return link_->ended();
    case CoordinatorLink::Course::kFinished:
      *job_over = true;
      return absl::CancelledError(link_->ended().message());
  }
  return absl::OkStatus();
}

Worker::~Worker() {
  // No event may reach the engine once it is gone, and it must not use the link once that is.
  if (link_ != nullptr) link_->Silence();
  engine_.reset();
}

absl::StatusOr<uint32_t> Worker::AddGroup(const std::vector<int>& ranks, const Interrupted& interrupted) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= rank_numbers_.size || (i > 0 && ranks[i] <= ranks[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat("a process set needs ascending ranks from 0 to ",
                                                     rank_numbers_.size - 1, ", not [", absl::StrJoin(ranks, ","),
                                                     "]"));
    }
  }
  if (ranks.empty()) return absl::InvalidArgumentError("a process set needs at least one rank");
  if (link_ != nullptr) return link_->ChangeGroup(ranks, 0, interrupted);
  const uint32_t group = last_own_group_.fetch_add(1) + 1;
  engine_->table().answers().OnGroupAdded(group, ranks);
  engine_->OnTableChanged();
  return group;
}

absl::Status Worker::RemoveGroup(uint32_t group, const Interrupted& interrupted) {
  if (group == 0) return absl::InvalidArgumentError("process set 0, all ranks, cannot be removed");
  const absl::StatusOr<std::vector<int>> ranks = engine_->table().RanksOf(group);
  if (!ranks.ok()) return absl::InvalidArgumentError(ranks.status().message());
  if (!engine_->table().IsIdle(group)) {
    return absl::FailedPreconditionError(absl::StrCat("process set ", group, " of ranks [", absl::StrJoin(*ranks, ","),
                                                      "] has pending submissions on rank ", rank_numbers_.rank));
  }
  if (link_ == nullptr) {
    engine_->table().answers().OnGroupRemoved(group);
    engine_->OnTableChanged();
  } else if (absl::Status removed = link_->ChangeGroup({}, group, interrupted).status(); !removed.ok()) {
    return removed;
  }
  // A rank that has joined may still run a batch of it.
  if (!engine_->table().HasJoined()) gpus_->Forget(group, [this, &interrupted] { return GivesUp(interrupted); });
  return absl::OkStatus();
}

std::string Worker::Prove(absl::string_view label, absl::string_view bytes) const {
  if (proving_key_.empty()) return std::string(kSha256Bytes, '\0');
  // The hash has a fixed length, so that no bytes can pass for a part of the label.
  return HmacSha256(proving_key_, absl::StrCat(Sha256(bytes), label));
}

uint64_t Worker::coordinator_messages() const {
  if (link_ == nullptr) return 0;
  return engine_->table().counters().negotiation_messages + link_->messages();
}

}  // namespace farandole
