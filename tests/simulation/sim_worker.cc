#include "tests/simulation/sim_worker.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "worker/collectives/start_collective.h"
#include "worker/core/hosts.h"

namespace farandole {
namespace {

constexpr char kCheckpointName[] = "model";
// A waiting worker looks this often even if nothing rings, like the engine's threads.
constexpr int64_t kSurfaceNs = 50 * kMillisecond;
constexpr int kPasses = 3;
// As the worker's.
constexpr int64_t kMeetTimeoutNs = 30 * kSecond;

}  // namespace

SimWorker::SimWorker(SimSite* site, const TrainingPlan* plan, std::string job, int index, int workers, std::string host)
    : site_(site),
      plan_(plan),
      job_(std::move(job)),
      index_(index),
      workers_(workers),
      process_(std::make_shared<SimProcess>(site->time, static_cast<int64_t>(site->processes.size()) + 1, host)) {
  site_->processes[process_->pid()] = process_;
  WorkerOptions options;
  options.job = job_;
  options.size = workers;
  options.launch_index = index;
  options.join_timeout = absl::Seconds(60);
  options.stall_warning = absl::Seconds(10);
  Lineage lineage;
  lineage.speaks = index == 0;
  v1::Member member;
  member.set_incarnation(absl::StrFormat("%032x", process_->pid()));
  member.set_host_id(host);
  member.set_hostname(std::move(host));
  member.set_pid(process_->pid());
  absl::StatusOr<std::unique_ptr<CoordinatorLink>> link = CoordinatorLink::JoinOver(
      options, lineage, member, [this](v1::JoinRequest join, Conversation::Callbacks callbacks) {
        auto conversation = std::make_unique<SimConversation>(site_->coordinator, &site_->processes, process_,
                                                              std::move(join), std::move(callbacks), [this] {
                                                                if (has_met_)
                                                                  place_->AnswerBells(place_->hosts().HostOf(rank_));
                                                                Wake();
                                                              });
        conversation_ = conversation.get();
        return absl::StatusOr<std::unique_ptr<Conversation>>(std::move(conversation));
      });
  FD_CHECK(link.ok()) << link.status().ToString();
  link_ = *std::move(link);
}

SimWorker::~SimWorker() {
  Kill();
  engine_.reset();
}

void SimWorker::Kill() {
  process_->Die();
  if (link_ != nullptr) link_->Silence();
  conversation_ = nullptr;
}

void SimWorker::Wake() {
  if (std::exchange(is_looking_soon_, true)) return;
  process_->After(site_->time->Between(0, 20 * kMicrosecond), [this] {
    is_looking_soon_ = false;
    Look();
  });
}

void SimWorker::Look() {
  if (!has_met_) {
    if (outcome_.has_value()) return;
    if (absl::Status ended = link_->ended(); !ended.ok()) return End(ended);
    if (!link_->has_epoch()) return;
    if (connections_ == nullptr) Arrive();
    if (!Meet()) return;
  }
  if (engine_ == nullptr) return;
  engine_->Attend();
  if (!outcome_.has_value()) Train();
  // The engine has its data thread woken for work that came up while the role was given back, and as long as a batch
  // runs; it looks, rests the sockets, and sleeps.
  for (int passes = 0; passes < kPasses && place_->HasRung(rank_); ++passes) {
    place_->Answer(rank_);
    engine_->Attend();
    if (!outcome_.has_value()) Train();
  }
  place_->Answer(rank_);
  if (engine_->table().pending() > 0) {
    connections_->channel().doorbell().SetAttention(Attention::kDriverAsleep);
    if (!connections_->channel().Rest()) Wake();
  }
  place_->AnswerBells(place_->hosts().HostOf(rank_));
}

void SimWorker::LookAgain() {
  if (outcome_.has_value()) return;
  Look();
  process_->After(kSurfaceNs, [this] { LookAgain(); });
}

void SimWorker::Arrive() {
  const v1::Epoch epoch = *link_->AwaitEpoch(nullptr);
  std::vector<std::string> host_ids;
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    who_.push_back(absl::StrCat("rank ", rank, " (pid ", epoch.members(rank).pid(), ")"));
    host_ids.push_back(epoch.members(rank).host_id());
    if (epoch.members(rank).incarnation() == link_->incarnation()) rank_ = rank;
  }
  const absl::StatusOr<Hosts> hosts = Hosts::WithIds(host_ids);
  FD_CHECK(hosts.ok()) << hosts.status().ToString();
  epoch_ = epoch.number();
  arrived_ns_ = VirtualTime::NowNs();
  if (rank_ < 0) return site_->Violate("a worker was sent an epoch that it is no member of");
  std::unique_ptr<SimEpoch>& place = site_->epochs[epoch_];
  if (place == nullptr) place = std::make_unique<SimEpoch>(site_->network, *hosts, host_ids, site_->bounds);
  place_ = place.get();
  const absl::Status watched = link_->Watch(place_->hosts(), who_);
  FD_CHECK(watched.ok()) << watched.ToString();
  connections_ = std::make_unique<SimConnections>(place_, rank_, process_, [this] { Wake(); });
  process_->After(kMeetTimeoutNs, [this] { Look(); });
}

bool SimWorker::Meet() {
  if (connections_ == nullptr) return false;
  if (const int missing = connections_->Missing(); missing >= 0) {
    if (VirtualTime::NowNs() - arrived_ns_ >= kMeetTimeoutNs)
      End(absl::DeadlineExceededError(absl::StrCat(who_[missing], " was not met in time")));
    return false;
  }
  connections_->Meet(who_, [this](int peer, const std::string& evidence) {
    link_->ReportLost(peer, evidence, absl::AbortedError(absl::StrCat(who_[peer], " was lost: ", evidence)));
  });
  has_met_ = true;
  MakeEngine();
  process_->After(kSurfaceNs, [this] { LookAgain(); });
  return true;
}

void SimWorker::MakeEngine() {
  EngineOptions options;
  options.rank = rank_;
  options.size = place_->hosts().size();
  options.who = who_;
  options.has_data_thread = false;
  options.clock = VirtualTime::NowNs;
  engine_ = std::make_unique<Engine>(
      std::move(options), &connections_->channel(),
      [this](const Collective& collective) { return StartCollective(collective); },
      [this](const absl::Status& reason) { connections_->transport().Abort(reason); }, link_.get());
  link_->Connect(engine_.get(), &connections_->channel(), /*gpus=*/nullptr);
}

absl::StatusOr<std::unique_ptr<Operation>> SimWorker::StartCollective(const Collective& collective) {
  const std::string what = absl::StrCat(
      "op ", static_cast<int>(collective.op), " of ", collective.count, " elements, root ", collective.root, ", ranks ",
      absl::StrJoin(collective.ranks, ","), ", counts ", absl::StrJoin(collective.counts, ","));
  const auto [known, is_new] = site_->batches.try_emplace({epoch_, collective.sequence}, what);
  if (!is_new && known->second != what) {
    site_->Violate(absl::StrCat("batch ", collective.sequence, " of epoch ", epoch_, " is ", known->second,
                                " for one rank and ", what, " for rank ", rank_));
  }
  return farandole::StartCollective(collective, connections_->bulk_hosts(), connections_->transport(), buffers_);
}

void SimWorker::Train() {
  while (!outcome_.has_value()) {
    if (step_ == plan_->steps.size()) return Leave();
    if (!std::exchange(has_begun_step_, true)) {
      order_.resize(plan_->steps[step_].size());
      std::iota(order_.begin(), order_.end(), size_t{0});
      std::shuffle(order_.begin(), order_.end(), site_->time->random());
    }
    while (!outcome_.has_value() && !order_.empty()) {
      if (!SubmitNext()) return;
    }
    if (!Collect()) return;
    if (rank_ == 0 && (step_ + 1) % static_cast<size_t>(plan_->checkpoint_every) == 0) {
      WriteCheckpoint(static_cast<int64_t>(step_));
    }
    ++step_;
    has_begun_step_ = false;
  }
}

bool SimWorker::SubmitNext() {
  const int64_t now_ns = VirtualTime::NowNs();
  if (now_ns < next_submission_ns_) {
    process_->After(next_submission_ns_ - now_ns, [this] { Look(); });
    return false;
  }
  // The program computes in between.
  next_submission_ns_ = now_ns + (site_->time->OneIn(3) ? site_->time->Between(0, 20 * kMillisecond) : 0);
  auto pending = std::make_unique<Pending>();
  pending->tensor = order_.back();
  order_.pop_back();
  const TrainingPlan::Tensor& tensor = plan_->steps[step_][pending->tensor];
  const int64_t count = TrainingPlan::CountOf(tensor, rank_, step_);
  for (int64_t i = 0; i < count; ++i) {
    pending->values.push_back(TrainingPlan::Value(rank_, step_, pending->tensor, i));
  }
  pending->shape = {count};
  const TensorView view = {pending->values.data(), pending->values.data(), pending->shape};
  Request request;
  request.op = tensor.op;
  request.name = tensor.name;
  request.root_rank = tensor.root;
  if (tensor.op != OpType::kBarrier) request.tensors = absl::MakeConstSpan(&view, 1);
  const absl::StatusOr<int64_t> handle = engine_->Submit(request);
  if (!handle.ok()) return End(handle.status()), false;
  pending->handle = *handle;
  pending_.push_back(std::move(pending));
  return true;
}

bool SimWorker::Collect() {
  engine_->Attend();
  for (auto it = pending_.begin(); it != pending_.end();) {
    const absl::StatusOr<bool> complete = engine_->Wait((*it)->handle, 0, /*release=*/false);
    if (complete.ok() && !*complete) {
      ++it;
      continue;
    }
    const absl::Status status = complete.status();
    const bool goes_on = status.ok() || absl::IsInvalidArgument(status);
    if (goes_on) Check(**it, status);
    engine_->Release((*it)->handle);
    if (!goes_on) return End(status), false;
    it = pending_.erase(it);
  }
  return pending_.empty();
}

void SimWorker::Check(const Pending& pending, const absl::Status& status) {
  const TrainingPlan::Tensor& tensor = plan_->steps[step_][pending.tensor];
  const bool is_odd = tensor.odd_rank >= 0;
  if (status.ok() == is_odd) {
    return site_->Violate(absl::StrCat("step ", step_, ": ", tensor.name, " ends on rank ", rank_, " with ",
                                       status.ToString(),
                                       is_odd ? ", but the ranks disagree" : ", but the ranks agree"));
  }
  if (is_odd || tensor.op == OpType::kBarrier) return;
  if (tensor.op == OpType::kAllgather) return CheckGathered(pending);
  for (int64_t i = 0; i < static_cast<int64_t>(pending.values.size()); ++i) {
    const float expected = Expected(tensor, pending.tensor, i);
    if (pending.values[i] == expected) continue;
    return site_->Violate(absl::StrCat("step ", step_, ": ", tensor.name, "[", i, "] is ", pending.values[i],
                                       " on rank ", rank_, ", expected ", expected));
  }
}

float SimWorker::Expected(const TrainingPlan::Tensor& tensor, size_t index, int64_t element) const {
  if (tensor.op == OpType::kBroadcast) return TrainingPlan::Value(tensor.root, step_, index, element);
  float sum = 0;
  for (int rank = 0; rank < workers_; ++rank) sum += TrainingPlan::Value(rank, step_, index, element);
  return sum;
}

void SimWorker::CheckGathered(const Pending& pending) {
  const TrainingPlan::Tensor& tensor = plan_->steps[step_][pending.tensor];
  std::vector<float> expected;
  for (int rank = 0; rank < workers_; ++rank) {
    for (int64_t i = 0; i < TrainingPlan::CountOf(tensor, rank, step_); ++i)
      expected.push_back(TrainingPlan::Value(rank, step_, pending.tensor, i));
  }
  const Submission* result = engine_->Result(pending.handle);
  const size_t bytes = expected.size() * sizeof(float);
  const bool is_right = result != nullptr && static_cast<size_t>(result->result_bytes) == bytes &&
                        (bytes == 0 || std::memcmp(result->result.get(), expected.data(), bytes) == 0);
  if (!is_right)
    site_->Violate(absl::StrCat("step ", step_, ": what rank ", rank_, " gathered of ", tensor.name, " is wrong"));
}

void SimWorker::WriteCheckpoint(int64_t step) {
  if (is_writing_) return;
  is_writing_ = true;
  v1::BeginCheckpointRequest begin;
  begin.set_job(job_);
  begin.set_incarnation(link_->incarnation());
  begin.set_epoch(epoch_);
  begin.set_name(kCheckpointName);
  begin.set_step(step);
  begin.set_idempotency_key(absl::StrCat(process_->pid(), "-", step));
  const auto commit = [this, begin](const Reply& granted) {
    is_writing_ = false;
    if (!granted.status.ok()) return;
    const uint64_t token = std::get<v1::BeginCheckpointResponse>(granted.message).token();
    v1::CommitCheckpointRequest request;
    request.set_job(job_);
    request.set_incarnation(begin.incarnation());
    v1::Checkpoint& checkpoint = *request.mutable_checkpoint();
    checkpoint.set_name(begin.name());
    checkpoint.set_step(begin.step());
    checkpoint.set_token(token);
    checkpoint.set_path(absl::StrCat("/model-step-", begin.step(), ".t", token, ".pt"));
    checkpoint.set_sha256(std::string(32, 'h'));
    // The file is written meanwhile.
    process_->After(site_->time->Between(0, 300 * kMillisecond), [this, request] {
      site_->coordinator->Call(
          process_,
          [request](CallId call) {
            return Event(CommitCheckpointRequested{call, request});
          },
          [](const Reply&) {});
    });
  };
  site_->coordinator->Call(
      process_,
      [begin](CallId call) {
        return Event(BeginCheckpointRequested{call, begin});
      },
      commit);
}

void SimWorker::Leave() {
  if (!has_left_) {
    const absl::Status left = engine_->Leave([] { return true; });
    if (!left.ok()) return;  // not yet; the log says when
    has_left_ = true;
    link_->Leave("");
  }
  if (conversation_->is_over()) End(engine_->table().ended());
}

void SimWorker::End(const absl::Status& outcome) {
  outcome_ = outcome;
  if (engine_ != nullptr) {
    engine_->Abort(outcome.ok() ? absl::AbortedError("the worker has shut down") : outcome);
    engine_->Attend();
  }
  process_->After(site_->time->Between(0, 150 * kMillisecond), [this] { Close(); });
  process_->After(site_->time->Between(0, 300 * kMillisecond), [this] { Kill(); });
}

void SimWorker::Close() {
  link_->Silence();
  conversation_ = nullptr;
  engine_.reset();
  connections_.reset();
}

std::string SimWorker::Describe() const {
  std::string text =
      absl::StrCat("worker ", index_, " (pid ", process_->pid(), ", rank ", rank_, ", epoch ", epoch_, "): ");
  if (outcome_.has_value()) return absl::StrCat(text, outcome_->ToString());
  if (process_->is_dead()) return absl::StrCat(text, "dead");
  absl::StrAppend(&text, "in step ", step_, " of ", plan_->steps.size());
  for (const auto& pending : pending_)
    absl::StrAppend(&text, ", waits for ", plan_->steps[step_][pending->tensor].name);
  return text;
}

}  // namespace farandole
