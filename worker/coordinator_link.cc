#include "worker/coordinator_link.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "worker/control/coordinator_client.h"
#include "worker/host_identity.h"

namespace farandole {
namespace {

constexpr uint32_t kProtocolVersion = 1;
// Signs of life, and the look for stalls. The coordinator counts a worker as lost after six of them.
constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr auto kSurface = std::chrono::milliseconds(100);
// Longer than the coordinator takes to hear of a death from the host where it happened.
constexpr int64_t kVerdictLimitNs = 2'000'000'000;
constexpr absl::Duration kLeaveTimeout = absl::Seconds(5);

std::string RandomHex(int bytes) {
  std::string random(bytes, '\0');
  RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), bytes);
  return absl::BytesToHexString(random);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorLink>> CoordinatorLink::Join(const WorkerOptions& options,
                                                                       const std::vector<std::string>& endpoints,
                                                                       std::function<bool()> interrupted) {
  v1::Member member;
  member.set_incarnation(RandomHex(16));
  member.set_host_id(HostIdentity(options.host_id));
  member.set_hostname(HostName());
  member.set_pid(getpid());
  for (const std::string& endpoint : endpoints) member.add_endpoints(endpoint);
  CoordinatorClientOptions client;
  client.address = options.coordinator;
  client.token = options.token;
  client.token_origin = options.token_file;
  client.tls_ca_pem = options.ca_pem;
  client.tls_ca_origin = options.ca_file;
  client.give_up_after = options.outage_limit;
  client.is_interrupted = std::move(interrupted);
  return JoinOver(options, member, [&client](v1::JoinRequest join, Conversation::Callbacks callbacks) {
    return CoordinatorClient::Start(std::move(client), std::move(join), kTick, std::move(callbacks));
  });
}

absl::StatusOr<std::unique_ptr<CoordinatorLink>> CoordinatorLink::JoinOver(const WorkerOptions& options,
                                                                           const v1::Member& member,
                                                                           const Starter& start) {
  std::unique_ptr<CoordinatorLink> link(new CoordinatorLink());
  link->incarnation_ = member.incarnation();
  link->job_ = options.job;
  link->log_ = WorkerLog(options.log_level, options.log_format, options.job);
  link->speaks_ = options.launch_index == 0;
  link->stall_warning_ns_ = absl::ToInt64Nanoseconds(options.stall_warning);
  v1::JoinRequest join;
  join.set_job(options.job);
  *join.mutable_member() = member;
  join.set_wanted_size(options.size);
  join.set_launch_index(options.launch_index);
  join.set_protocol_version(kProtocolVersion);
  join.set_version(kVersion);
  join.set_join_timeout_ms(absl::ToInt64Milliseconds(options.join_timeout));
  join.set_stall_warning_ms(absl::ToInt64Milliseconds(options.stall_warning));
  CoordinatorLink* self = link.get();
  Conversation::Callbacks callbacks;
  callbacks.on_message = [self](const v1::CoordinatorMessage& message) { self->OnMessage(message); };
  callbacks.make_hello = [self] { return self->MakeHello(); };
  callbacks.on_attached = [self] { self->OnAttached(); };
  callbacks.on_ended = [self](const absl::Status& status) { self->OnEnded(status); };
  callbacks.on_tick = [self] { self->OnTick(); };
  absl::StatusOr<std::unique_ptr<Conversation>> started = start(std::move(join), std::move(callbacks));
  if (!started.ok()) return started.status();
  std::lock_guard<std::mutex> lock(link->mutex_);
  link->conversation_ = *std::move(started);
  return link;
}

CoordinatorLink::~CoordinatorLink() { Silence(); }

absl::StatusOr<v1::Epoch> CoordinatorLink::AwaitEpoch(const std::function<bool()>& interrupted) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!has_epoch_ && ended_.ok()) {
    changed_.wait_for(lock, kSurface);
    if (has_epoch_ || !ended_.ok()) break;
    lock.unlock();
    if (interrupted && interrupted()) return absl::AbortedError("joining the job was interrupted");
    lock.lock();
  }
  if (!has_epoch_) return ended_;
  return epoch_;
}

bool CoordinatorLink::has_epoch() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_epoch_;
}

absl::Status CoordinatorLink::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

absl::Status CoordinatorLink::Connect(Engine* engine, ReadyChannel* channel, const Hosts& hosts,
                                      std::vector<std::string> who) {
  std::vector<v1::CoordinatorMessage> early;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    rank_ = engine->rank();
    first_local_ = hosts.Leader(hosts.HostOf(rank_));
    local_size_ = hosts.RanksOn(hosts.HostOf(rank_));
    who_ = std::move(who);
    peers_.resize(who_.size());
    channel_ = channel;
    engine_ = engine;
    for (const v1::CoordinatorMessage& message : std::exchange(early_, {})) Deliver(message);
    if (!ended_.ok()) engine_->Abort(ended_);
  }
  const int64_t now = conversation_->NowNs();
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].advanced_ns = now;
    if (static_cast<int>(rank) == rank_ || !IsOnThisHost(static_cast<int>(rank))) continue;
    const absl::Status watched = conversation_->WatchProcess(epoch_.members(static_cast<int>(rank)).pid(),
                                                             [this, rank] { OnPeerExit(static_cast<int>(rank)); });
    if (!watched.ok()) return absl::Status(watched.code(), absl::StrCat(who_[rank], ": ", watched.message()));
  }
  return absl::OkStatus();
}

void CoordinatorLink::OnPeerExit(int rank) {
  if (channel_->HasLeft(rank)) return;
  v1::PeerLost lost;
  lost.set_rank(static_cast<uint32_t>(rank));
  lost.set_evidence("its process ended without leaving the job");
  // The end of who has heard of the epoch's end is not its cause.
  const absl::Status stated = channel_->StatedEnd(rank);
  lost.set_ended_by(std::string(stated.message()));
  engine_->Abort(stated.ok() ? absl::AbortedError(absl::StrCat(who_[rank], " died: ", lost.evidence())) : stated);
  SendPeerLost(std::move(lost));
}

void CoordinatorLink::SendPeerLost(v1::PeerLost lost) {
  lost.set_epoch(epoch_.number());
  v1::WorkerMessage message;
  *message.mutable_peer_lost() = lost;
  conversation_->Send(std::move(message));
  lost_.push_back(std::move(lost));
}

void CoordinatorLink::ReportLost(int rank, const std::string& evidence, const absl::Status& verdict) {
  std::lock_guard<std::mutex> lock(silence_mutex_);
  if (is_silenced_) return;
  conversation_->Post([this, rank, evidence, verdict] {
    v1::PeerLost lost;
    lost.set_rank(static_cast<uint32_t>(rank));
    lost.set_evidence(evidence);
    SendPeerLost(std::move(lost));
    if (verdict_ns_ != 0) return;
    verdict_ = verdict;
    verdict_ns_ = conversation_->NowNs() + kVerdictLimitNs;
  });
}

void CoordinatorLink::Leave(const std::string& reason, const std::string& failure) {
  v1::Leave leave;
  leave.set_reason(reason);
  leave.set_failure(failure);
  bool ended = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    leave.set_epoch(has_epoch_ ? epoch_.number() : 0);
    ended = !ended_.ok();
  }
  // Where the coordinator has ended the epoch itself, nobody waits for the word.
  conversation_->Leave(std::move(leave), ended ? absl::ZeroDuration() : kLeaveTimeout);
}

void CoordinatorLink::Silence() {
  {
    std::lock_guard<std::mutex> lock(silence_mutex_);
    is_silenced_ = true;
  }
  conversation_.reset();
}

absl::StatusOr<uint32_t> CoordinatorLink::ChangeGroup(std::vector<int> ranks, uint32_t remove,
                                                      const std::function<bool()>& interrupted) {
  auto own = std::make_shared<GroupRequest>();
  std::unique_lock<std::mutex> lock(mutex_);
  own->request.set_epoch(epoch_.number());
  own->request.set_remove_group(remove);
  for (int rank : ranks) own->request.add_ranks(static_cast<uint32_t>(rank));
  group_requests_.push_back(own);
  SendGroupRequest(own->request);
  while (!own->answered) {
    if (absl::Status status = engine_->table().ended(); !status.ok()) return status;
    changed_.wait_for(lock, kSurface);
    if (own->answered) break;
    lock.unlock();
    const bool stop = interrupted && interrupted();
    lock.lock();
    if (stop) return absl::AbortedError("waiting for the other ranks' process set was interrupted");
  }
  if (!own->answer.error().empty()) return absl::InvalidArgumentError(own->answer.error());
  return own->answer.group().number();
}

void CoordinatorLink::SendGroupRequest(const v1::GroupRequest& request) {
  group_messages_.fetch_add(1);
  v1::WorkerMessage message;
  *message.mutable_group_request() = request;
  conversation_->Send(std::move(message));
}

void CoordinatorLink::Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot,
                                uint32_t attempt, uint32_t ordinal) {
  v1::WorkerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_name(submission.name);
  ready->set_group(submission.group);
  ready->set_op(static_cast<v1::OpType>(submission.op));
  ready->set_dtype(static_cast<v1::DType>(submission.dtype));
  ready->set_reduce_op(static_cast<v1::ReduceOp>(submission.reduce_op));
  size_t at = 0;
  for (int32_t ndim : submission.ndims) {
    v1::Shape* shape = submission.ndims.size() > 1 ? ready->add_grouped_shapes() : nullptr;
    for (int32_t dim = 0; dim < ndim; ++dim, ++at) {
      shape != nullptr ? shape->add_dims(submission.dims[at]) : ready->add_shape(submission.dims[at]);
    }
  }
  ready->set_root(static_cast<uint32_t>(submission.root));
  ready->set_prescale(submission.prescale);
  ready->set_postscale(submission.postscale);
  ready->set_retired_slot(retired_slot);
  ready->set_disputed_slot(disputed_slot);
  ready->set_attempt(attempt);
  ready->set_ordinal(ordinal);
  conversation_->Send(std::move(message));
}

void CoordinatorLink::ReportRetired(uint32_t slot) {
  v1::WorkerMessage message;
  message.mutable_slot_retired()->set_epoch(epoch_.number());
  message.mutable_slot_retired()->set_slot(slot);
  conversation_->Send(std::move(message));
}

}  // namespace farandole
