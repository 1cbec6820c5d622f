#include "worker/member/coordinator_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/steady_time.h"
#include "base/text/utf8_text.h"
#include "base/version.h"
#include "worker/control/coordinator_client.h"
#include "worker/core/clock.h"
#include "worker/core/host_identity.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/measure/flight_reader.h"

namespace farandole {
namespace {

v1::DeviceKind DeviceOf(const Submission& submission) {
  if (submission.gpu == nullptr) return v1::DEVICE_KIND_CPU;
  return submission.ready.is_captured() ? v1::DEVICE_KIND_CUDA_GRAPH : v1::DEVICE_KIND_CUDA;
}

// Where the coordinator is, and what is said while it is away.
CoordinatorClientOptions ClientOptionsOf(const WorkerOptions& options) {
  CoordinatorClientOptions client;
  client.address = options.coordinator;
  client.token = options.token;
  client.token_origin = options.token_file;
  client.tls_ca_pem = options.ca_pem;
  client.tls_ca_origin = options.ca_file;
  client.tls_cert_pem = options.certificate.certificate_pem;
  client.tls_key_pem = options.certificate.key_pem;
  client.tls_cert_file = options.cert_file;
  client.coordinator_users = options.coordinator_users;
  client.give_up_after = options.outage_limit;
  const WorkerLog log(options.log_level, options.log_format, options.job);
  client.on_unreached = [log](const std::string& sentence) { log.Write(LogLevel::kWarning, -1, sentence); };
  return client;
}

// The request's tensors, or all of the call that it begins.
void AddShapes(const Submission& submission, v1::Ready* ready) {
  if (submission.states_group) {
    ready->set_is_empty_group(submission.members.empty());
    for (const GroupMember& member : submission.members) {
      v1::Shape* shape = ready->add_grouped_shapes();
      shape->mutable_dims()->Add(member.dims.begin(), member.dims.end());
      shape->set_dtype(static_cast<v1::DType>(member.dtype));
      shape->set_device(member.is_on_gpu ? v1::DEVICE_KIND_CUDA : v1::DEVICE_KIND_CPU);
    }
    return;
  }
  size_t at = 0;
  for (int32_t ndim : submission.ndims) {
    v1::Shape* shape = submission.ndims.size() > 1 ? ready->add_grouped_shapes() : nullptr;
    if (shape != nullptr) {
      shape->set_dtype(ready->dtype());
      shape->set_device(submission.gpu != nullptr ? v1::DEVICE_KIND_CUDA : v1::DEVICE_KIND_CPU);
    }
    for (int32_t dim = 0; dim < ndim; ++dim, ++at) {
      shape != nullptr ? shape->add_dims(submission.dims[at]) : ready->add_shape(submission.dims[at]);
    }
  }
}

// States what the ranks must agree about.
void Describe(const Submission& submission, v1::Ready* ready) {
  ready->set_name(submission.name);
  ready->set_group(submission.group);
  ready->set_op(static_cast<v1::OpType>(submission.op));
  ready->set_dtype(static_cast<v1::DType>(submission.dtype));
  ready->set_reduce_op(static_cast<v1::ReduceOp>(submission.reduce_op));
  ready->set_device(DeviceOf(submission));
  AddShapes(submission, ready);
  ready->set_root(static_cast<uint32_t>(submission.root));
  ready->set_prescale(submission.prescale);
  ready->set_postscale(submission.postscale);
  ready->set_joins(submission.joins);
}

constexpr uint32_t kProtocolVersion = 1;
// The look for stalls; signs of life, too, where the coordinator does not want more.
constexpr absl::Duration kLongestTick = absl::Milliseconds(500);
constexpr auto kSurface = std::chrono::milliseconds(100);
// Longer than the coordinator takes to learn of a death from the host on which it happened.
constexpr int64_t kVerdictLimitNs = 2'000'000'000;
constexpr absl::Duration kLeaveTimeout = absl::Seconds(5);
constexpr char kDeathEvidence[] = "its process ended without leaving the job";

v1::Elastic ElasticOf(const WorkerOptions& options) {
  v1::Elastic elastic;
  elastic.set_min_size(static_cast<uint32_t>(options.min_size));
  elastic.set_max_size(static_cast<uint32_t>(options.max_size));
  elastic.set_join_window_ms(absl::ToInt64Milliseconds(options.join_window));
  elastic.set_shortage_limit_ms(absl::ToInt64Milliseconds(options.shortage_limit));
  elastic.set_stall_limit_ms(absl::ToInt64Milliseconds(options.stall_limit));
  elastic.set_reset_limit(static_cast<uint32_t>(options.reset_limit));
  elastic.set_least_cooldown_ms(absl::ToInt64Milliseconds(options.least_cooldown));
  elastic.set_most_cooldown_ms(absl::ToInt64Milliseconds(options.most_cooldown));
  return elastic;
}

v1::WorkerMessage EndedMessage(int launch_index, const std::string& sentence) {
  v1::WorkerMessage message;
  message.mutable_process_ended()->set_launch_index(static_cast<uint32_t>(launch_index));
  message.mutable_process_ended()->set_sentence(sentence);
  return message;
}

v1::Leave LeaveMessage(const std::string& reason, const std::string& failure, bool returns,
                       const std::vector<int>& left) {
  v1::Leave leave;
  leave.set_reason(reason);
  leave.set_failure(failure);
  leave.set_returns(returns);
  leave.mutable_left_ranks()->Assign(left.begin(), left.end());
  return leave;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorLink>> CoordinatorLink::Join(const WorkerOptions& options,
                                                                       const Lineage& lineage,
                                                                       const std::vector<std::string>& endpoints,
                                                                       std::function<bool()> interrupted) {
  v1::Member member;
  Lineage own = lineage;
  own.secret = SecureRandomBytes(kWorkerSecretBytes);
  member.set_incarnation(IncarnationOfSecret(own.secret));
  member.set_host_id(HostIdentity(options.host_id));
  member.set_hostname(ReplaceInvalidUtf8(HostName()));
  member.set_pid(getpid());
  for (const std::string& endpoint : endpoints) member.add_endpoints(endpoint);
  member.set_local_slot(options.local_slot);
  member.set_gpu_transport(FindGpuTransport(options.nccl_library, options.nccl_blocks).value_or(""));
  CoordinatorClientOptions client = ClientOptionsOf(options);
  client.join_patience = lineage.patience;
  client.is_interrupted = std::move(interrupted);
  return JoinOver(options, own, member, [&client](v1::JoinRequest join, Conversation::Callbacks callbacks) {
    return CoordinatorClient::Start(std::move(client), std::move(join), kLongestTick, std::move(callbacks));
  });
}

CoordinatorLink::CoordinatorLink(const WorkerOptions& options, const Lineage& lineage, const v1::Member& member)
    : incarnation_(member.incarnation()),
      secret_(lineage.secret),
      job_(options.job),
      log_(options.log_level, options.log_format, options.job),
      speaks_(lineage.speaks),
      checkpoint_wish_([this](v1::WorkerMessage message) { conversation_->Send(std::move(message)); }),
      gpu_health_({absl::ToInt64Nanoseconds(options.stall_warning), absl::ToInt64Nanoseconds(options.stall_limit)},
                  options.nccl_ras),
      sources_(options),
      // In an elastic job the coordinator decides which rank counts as lost for it.
      stalls_(absl::ToInt64Nanoseconds(options.stall_warning),
              options.is_elastic() ? 0 : absl::ToInt64Nanoseconds(options.stall_limit)) {}

absl::StatusOr<std::unique_ptr<CoordinatorLink>> CoordinatorLink::JoinOver(const WorkerOptions& options,
                                                                           const Lineage& lineage,
                                                                           const v1::Member& member,
                                                                           const Starter& start) {
  std::unique_ptr<CoordinatorLink> link(new CoordinatorLink(options, lineage, member));
  v1::JoinRequest join;
  join.set_job(options.job);
  *join.mutable_member() = member;
  join.set_wanted_size(options.size);
  join.set_launch_index(options.launch_index);
  join.set_protocol_version(kProtocolVersion);
  join.set_version(kVersion);
  join.set_join_timeout_ms(absl::ToInt64Milliseconds(options.join_timeout));
  join.set_stall_warning_ms(absl::ToInt64Milliseconds(options.stall_warning));
  join.set_secret(lineage.secret);
  join.set_predecessor(lineage.predecessor);
  join.set_predecessor_secret(lineage.predecessor_secret);
  if (options.is_elastic()) *join.mutable_elastic() = ElasticOf(options);
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

void CoordinatorLink::TellEnded(int launch_index, const std::string& sentence) {
  conversation_->Send(EndedMessage(launch_index, sentence));
}

bool CoordinatorLink::has_epoch() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_epoch_;
}

absl::Status CoordinatorLink::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

absl::Status CoordinatorLink::AwaitEnd(absl::Time deadline, const std::function<bool()>& interrupted) const {
  std::unique_lock<std::mutex> lock(mutex_);
  while (ended_.ok() && SteadyNow() < deadline) {
    changed_.wait_for(lock, kSurface);
    if (!ended_.ok()) break;
    lock.unlock();
    const bool stop = interrupted && interrupted();
    lock.lock();
    if (stop) break;
  }
  return ended_;
}

CoordinatorLink::Course CoordinatorLink::course() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return course_;
}

bool CoordinatorLink::LeadsSurvivors() const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (int rank = 0; rank < rank_; ++rank) {
    if (!std::count(lost_ranks_.begin(), lost_ranks_.end(), static_cast<uint32_t>(rank))) return false;
  }
  return true;
}

absl::Status CoordinatorLink::Watch(const Hosts& hosts, std::vector<std::string> who) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    FD_CHECK(rank_ >= 0) << "a worker watches the epoch of which it is a member";
    pulses_.Begin(rank_, hosts.Leader(hosts.HostOf(rank_)), hosts.RanksOn(hosts.HostOf(rank_)));
    who_ = std::move(who);
  }
  for (int rank = pulses_.first(); rank < pulses_.end(); ++rank) {
    if (rank == rank_) continue;
    const absl::Status watched =
        conversation_->WatchProcess(epoch_.members(rank).pid(), [this, rank] { OnPeerExit(rank); });
    if (!watched.ok()) return absl::Status(watched.code(), absl::StrCat(who_[rank], ": ", watched.message()));
  }
  return absl::OkStatus();
}

void CoordinatorLink::Connect(Engine* engine, ReadyChannel* channel, GpuCollectives* gpus,
                              HostMeasures::ReadSending sending, const LastingParts& lasting) {
  std::lock_guard<std::mutex> lock(mutex_);
  pulses_.Start(conversation_->NowNs());
  pauses_.OnTick(conversation_->NowNs());  // a pause may begin before the first tick
  measures_.Start(pulses_.first(), pulses_.end(), conversation_->NowNs(), std::move(sending), lasting.sections);
  channel_ = channel;
  if (gpus != nullptr) {
    gpu_health_.Watch({[gpus] { return gpus->is_used(); }, [gpus](int64_t looked_ns) { return gpus->Look(looked_ns); },
                       [gpus] { return gpus->TakeSample(); }, [gpus] { return gpus->TakeWarning(); }},
                      who_[rank_], [log = log_, rank = rank_](LogLevel level, const std::string& line) {
                        log.Write(level, rank, line);
                      });
  }
  reports_ = std::make_unique<ProgramReports>(
      conversation_.get(), lasting, epoch_, rank_, who_[rank_], sources_,
      [engine](bool with_times) { return engine->table().ReadFlight(kShownFlights, MonotonicNs(), with_times); });
  engine_ = engine;
  for (const v1::CoordinatorMessage& message : std::exchange(early_, {})) Deliver(message);
  if (!ended_.ok()) engine_->Abort(ended_);
  for (const int rank : early_exits_) {
    if (!channel_->HasLeft(rank)) engine_->Abort(Death(rank));
  }
}

absl::Status CoordinatorLink::Death(int rank) const {
  return absl::AbortedError(absl::StrCat(who_[rank], " died: ", kDeathEvidence));
}

void CoordinatorLink::OnPeerExit(int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  v1::PeerLost lost;
  lost.set_rank(static_cast<uint32_t>(rank));
  lost.set_evidence(kDeathEvidence);
  if (engine_ == nullptr) {
    early_exits_.push_back(rank);
  } else {
    if (channel_->HasLeft(rank)) return;
    // A rank that ends because the epoch has ended is not the cause.
    const absl::Status stated = channel_->StatedEnd(rank);
    lost.set_ended_by(std::string(stated.message()));
    engine_->Abort(stated.ok() ? Death(rank) : stated);
  }
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

void CoordinatorLink::Leave(const std::string& reason, const std::string& failure, bool returns,
                            const std::vector<int>& left) {
  v1::Leave leave = LeaveMessage(reason, failure, returns, left);
  bool ended = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    leave.set_epoch(has_epoch_ ? epoch_.number() : 0);
    if (reports_ != nullptr) reports_->Finish();
    ended = course_ == Course::kFailed || course_ == Course::kFinished;
  }
  // If the coordinator has ended the job itself, do not wait for its reason.
  conversation_->Leave(std::move(leave), ended ? absl::ZeroDuration() : kLeaveTimeout);
}

void CoordinatorLink::Depart(absl::Duration grace, const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  departing_.emplace();
  departing_->set_epoch(epoch_.number());
  departing_->set_grace_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(grace)));
  departing_->set_reason(reason);
  SendDeparting();
}

void CoordinatorLink::SendDeparting() {
  v1::WorkerMessage message;
  *message.mutable_departing() = *departing_;
  conversation_->Send(std::move(message));
}

v1::ChangeWanted CoordinatorLink::change_wanted() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return change_wanted_;
}

void CoordinatorLink::Silence() {
  {
    std::lock_guard<std::mutex> lock(silence_mutex_);
    is_silenced_ = true;
  }
  if (reports_ != nullptr && conversation_ != nullptr) reports_->Finish();
  conversation_.reset();
  gpu_health_.Stop();
}

absl::StatusOr<uint32_t> CoordinatorLink::ChangeGroup(const std::vector<int>& ranks, uint32_t remove,
                                                      const std::function<bool()>& interrupted) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto [own, is_new] = group_requests_.Ask(epoch_.number(), ranks, remove);
  if (is_new) SendGroupRequest(own->request);
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
  Describe(submission, ready);
  ready->set_retired_slot(retired_slot);
  ready->set_disputed_slot(disputed_slot);
  ready->set_attempt(attempt);
  ready->set_ordinal(ordinal);
  ready->set_disputants(disputed_slot == 0 ? 0 : submission.disputants);
  conversation_->Send(std::move(message));
}

void CoordinatorLink::ReportRetired(uint32_t slot) {
  v1::WorkerMessage message;
  message.mutable_slot_retired()->set_epoch(epoch_.number());
  message.mutable_slot_retired()->set_slot(slot);
  conversation_->Send(std::move(message));
}

}  // namespace farandole
