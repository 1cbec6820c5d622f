#include "server/job/running_epoch.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Of what a worker says of its own failure.
constexpr size_t kMostFailureBytes = 1024;

// An epoch keeps the bound that its workers were told, also where a restarted coordinator has another.
uint32_t MaxSlotsOf(const v1::Epoch& epoch) { return epoch.max_slots() == 0 ? 4096 : epoch.max_slots(); }

bool IsAboutTensors(const v1::CoordinatorMessage& message) {
  return message.has_slot_assigned() || message.has_mismatch() || message.has_group_assigned();
}

}  // namespace

RunningEpoch::RunningEpoch(v1::Epoch epoch, const JobOptions& options, StallLimits limits, Reserved reserved,
                           BrokenLinks* links, History* history, MeasuredHistory* measured)
    : epoch_(std::move(epoch)),
      options_(options),
      links_(links),
      history_(history),
      reserved_(reserved),
      roster_(std::make_unique<Roster>(epoch_, options.silence_limit)),
      groups_(epoch_.number(), epoch_.members_size(), options.max_groups, reserved.groups + 1, options.bytes),
      negotiation_(epoch_.number(), MaxSlotsOf(epoch_), reserved.slots + 1, groups_, options.bytes),
      stalls_(epoch_.number(), limits.warning, limits.loss, groups_, negotiation_, *roster_, options.bytes),
      diagnosis_(roster_.get(), &negotiation_, options.measurements, measured),
      owed_(options.bytes),
      accusations_(options.bytes) {}

void RunningEpoch::Begin(const std::vector<StreamId>& streams, Effects effects) {
  reserved_ = {kSlotBlock, kGroupBlock};
  *effects.record_changed = true;
  v1::CoordinatorMessage formed;
  *formed.mutable_epoch_formed() = epoch_;
  const SharedMessage message = Share(std::move(formed));
  for (uint32_t rank = 0; rank < streams.size(); ++rank) {
    roster_->Attach(rank, streams[rank], effects.now);
    SendTo(rank, message, effects);
  }
}

void RunningEpoch::AwaitReturn(const v1::JobRecord& record, absl::Time now) {
  Notices none;
  for (const uint32_t rank : record.drained()) roster_->Drain(rank);
  for (const uint32_t rank : record.left()) {
    roster_->Leave(rank);
    groups_.Leave(roster_->Describe(rank), &none);
  }
  // They had left to join again, and died. Nobody else is lost while its epoch runs.
  for (const uint32_t rank : record.lost()) {
    roster_->Leave(rank, true);
    roster_->MarkLost(rank, "it had left to join again, and ended before the coordinator was restarted");
    groups_.Leave(roster_->Describe(rank), &none);
  }
  reattachment_ = std::make_unique<Reattachment>(roster_->Staying(), now, options_.reattach_window,
                                                 negotiation_.max_slots() + options_.max_groups, options_.bytes);
}

void RunningEpoch::Attach(uint32_t rank, StreamId stream, const v1::Hello& hello, Effects effects) {
  if (const StreamId old = roster_->Attach(rank, stream, effects.now); old != 0) {
    effects.actions->outputs.push_back(
        CloseStream{old, absl::AbortedError("replaced by a newer stream of the same worker")});
  }
  if (reattachment_ != nullptr) {
    if (!Adopt(rank, hello, effects)) return;
  } else if (absl::Status status = CatchUp(rank, hello, effects); !status.ok()) {
    return Refuse(rank, status, effects);
  }
  if (hello.epoch() == 0) {
    v1::CoordinatorMessage message;
    *message.mutable_epoch_formed() = epoch_;
    SendTo(rank, Share(std::move(message)), effects);
  }
  SettleReattachment(effects);
}

void RunningEpoch::SettleReattachment(Effects effects) {
  if (reattachment_ == nullptr || !reattachment_->missing().empty()) return;
  reattachment_->AwaitRepeats(groups_, effects.now);
  if (reattachment_->IsSettled(effects.now)) FinishReattachment(effects);
}

bool RunningEpoch::Adopt(uint32_t rank, const v1::Hello& hello, Effects effects) {
  for (const v1::Group& group : hello.groups()) {
    if (absl::Status status = groups_.Adopt(group); !status.ok()) return Refuse(rank, status, effects), false;
  }
  for (const v1::SlotAssigned& slot : hello.slots()) {
    if (absl::Status status = negotiation_.Adopt(slot); !status.ok()) return Refuse(rank, status, effects), false;
  }
  for (const v1::Mismatch& told : hello.told()) negotiation_.AdoptTold(told);
  for (const v1::GroupAssigned& refused : hello.refused()) groups_.AdoptRefusal(refused);
  reattachment_->Return(rank, hello, effects.now);
  return true;
}

absl::Status RunningEpoch::CatchUp(uint32_t rank, const v1::Hello& hello, Effects effects) {
  groups_.Forget(rank);
  owed_.Renew(rank);
  if (leftover_ != nullptr) leftover_->DropRepeated(rank);
  absl::flat_hash_set<uint32_t> known_groups;
  std::vector<SharedMessage> owed;
  for (const v1::Group& group : hello.groups()) {
    const bool is_new = known_groups.insert(group.number()).second;
    const bool was_given = group.number() != 0 && group.number() < groups_.next_number();
    if (is_new && was_given && groups_.Find(group.number()) == nullptr) owed.push_back(groups_.Tell(group.number()));
  }
  for (const auto& [number, ranks] : groups_.groups()) {
    if (!known_groups.contains(number)) owed.push_back(groups_.Tell(number));
  }
  if (absl::Status status = owed_.AddGroups(rank, owed); !status.ok() || rank != 0) return status;
  untold_ = UntoldSlots(hello, negotiation_);
  next_work_ = effects.now;
  return absl::OkStatus();
}

void RunningEpoch::FinishReattachment(Effects effects) {
  leftover_ = std::move(reattachment_);
  Tell(LogLine::Level::kInform,
       absl::StrCat("everybody is back after the coordinator's restart: ", Count(roster_->staying(), "member"),
                    " of epoch ", epoch_.number()),
       effects);
  Notices notices;
  leftover_->Settle(&groups_, &negotiation_, &owed_, &notices);
  Deliver(notices, effects);
  stalls_.Excuse(effects.now);
  next_work_ = effects.now;
}

void RunningEpoch::Receive(uint32_t rank, const v1::WorkerMessage& message, Effects effects) {
  roster_->Hear(rank, effects.now);
  if (IsSignOfLife(message)) roster_->HearHost(rank, effects.now);
  if (!IsCurrent(message)) return;
  if (absl::Status status = CheckMessage(message, roster_->size()); !status.ok()) return Refuse(rank, status, effects);
  switch (message.message_case()) {
    case v1::WorkerMessage::kReady:
    case v1::WorkerMessage::kGroupRequest:
    case v1::WorkerMessage::kSlotRetired:
      ++negotiation_messages_;
      if (reattachment_ == nullptr && leftover_ == nullptr) return Consider(rank, message, effects);
      if (absl::Status status = (reattachment_ != nullptr ? reattachment_ : leftover_)->Hold(rank, message);
          !status.ok()) {
        Refuse(rank, status, effects);
      }
      return;
    case v1::WorkerMessage::kHeartbeat:
      if (message.heartbeat().pulses().empty()) return;
      for (const v1::Pulse& pulse : message.heartbeat().pulses()) roster_->Feel(pulse, effects.now);
      for (const std::string& sentence : diagnosis_.Take(message.heartbeat(), effects.now))
        Tell(LogLine::Level::kInform, sentence, effects);
      return;
    case v1::WorkerMessage::kPeerLost:
      return LosePeer(rank, message.peer_lost(), effects.now);
    case v1::WorkerMessage::kStallReport:
      return stalls_.Report(rank, message.stall_report(), effects.now);
    case v1::WorkerMessage::kLeave:
      return Leave(rank, message.leave(), effects);
    case v1::WorkerMessage::kGpuStatus:
      return roster_->SetGpu(rank, message.gpu_status());
    case v1::WorkerMessage::kCheckpointTold:
    case v1::WorkerMessage::kDeparting:
    case v1::WorkerMessage::kEvidence:
    case v1::WorkerMessage::kTimelineChunk:
    case v1::WorkerMessage::kHello:
    case v1::WorkerMessage::kProcessEnded:
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      return;
  }
}

bool RunningEpoch::IsCurrent(const v1::WorkerMessage& message) const {
  switch (message.message_case()) {
    case v1::WorkerMessage::kGroupRequest:
      return message.group_request().epoch() == epoch_.number();
    case v1::WorkerMessage::kHeartbeat:
      return message.heartbeat().epoch() == epoch_.number();
    case v1::WorkerMessage::kPeerLost:
      return message.peer_lost().epoch() == epoch_.number();
    case v1::WorkerMessage::kStallReport:
      return message.stall_report().epoch() == epoch_.number();
    case v1::WorkerMessage::kSlotRetired:
      return message.slot_retired().epoch() == epoch_.number();
    case v1::WorkerMessage::kGpuStatus:
      return message.gpu_status().epoch() == epoch_.number();
    case v1::WorkerMessage::kEvidence:
      return message.evidence().epoch() == epoch_.number();
    case v1::WorkerMessage::kTimelineChunk:
      return message.timeline_chunk().epoch() == epoch_.number();
    case v1::WorkerMessage::kDeparting:
      return message.departing().epoch() == epoch_.number();
    case v1::WorkerMessage::kCheckpointTold:
      return message.checkpoint_told().epoch() == epoch_.number();
    case v1::WorkerMessage::kLeave:
      // 0: the worker went before it had heard that the epoch was formed.
      return message.leave().epoch() == epoch_.number() || message.leave().epoch() == 0;
    case v1::WorkerMessage::kReady:
    case v1::WorkerMessage::kHello:
    case v1::WorkerMessage::kProcessEnded:
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return true;
}

void RunningEpoch::Consider(uint32_t rank, const v1::WorkerMessage& message, Effects effects) {
  if (const SharedMessage owed = owed_.Take(rank, message); owed != nullptr) return SendTo(rank, owed, effects);
  if (owed_.HasCrossed(rank, message)) return;
  Notices notices;
  if (message.has_ready()) {
    negotiation_.Add(rank, message.ready(), effects.now, &notices);
  } else if (message.has_slot_retired()) {
    if (rank == 0) negotiation_.Retire(message.slot_retired().slot(), &notices);
  } else {
    std::vector<uint32_t> removed;
    const absl::Status status = groups_.Request(rank, message.group_request(), &notices, &removed);
    if (!status.ok()) return Refuse(rank, status, effects);
    for (const uint32_t group : removed) negotiation_.RemoveGroup(group, &notices);
  }
  Deliver(notices, effects);
  Reserve(effects);
  if (negotiation_.HasWork()) next_work_ = std::min(next_work_, effects.now + kBetweenWork);
}

void RunningEpoch::Work(Effects effects) {
  if (next_work_ > effects.now) return;
  Notices notices;
  negotiation_.Work(&notices);
  Deliver(notices, effects);
  Reserve(effects);
  const size_t most_outputs = effects.actions->outputs.size() + kMostHeldConsidered;
  if (roster_->seat(0).stream == 0) untold_ = UntoldSlots();
  for (const v1::SlotAssigned& slot : untold_.Take(negotiation_, groups_, kMostSlotsTold)) {
    v1::CoordinatorMessage message;
    *message.mutable_slot_assigned() = slot;
    SendTo(0, Share(std::move(message)), effects);
  }
  for (size_t count = 0; leftover_ != nullptr && leftover_->HasHeld() && !negotiation_.HasWork(); ++count) {
    if (count == kMostHeldConsidered || effects.actions->outputs.size() >= most_outputs) break;
    const Reattachment::Held held = leftover_->TakeHeld();
    // A rank that is away again repeats its requests when it is back; it reports a retired slot only once.
    if (roster_->seat(held.rank).stream != 0 || held.message.has_slot_retired())
      Consider(held.rank, held.message, effects);
  }
  if (leftover_ != nullptr && !leftover_->HasHeld()) leftover_.reset();
  const bool is_done = !negotiation_.HasWork() && untold_.IsEmpty() && leftover_ == nullptr;
  next_work_ = is_done ? absl::InfiniteFuture() : effects.now + kBetweenWork;
}

void RunningEpoch::Leave(uint32_t rank, const v1::Leave& leave, Effects effects) {
  if (!leave.failure().empty() && !ending_.has_value()) {
    for (const uint32_t left : leave.left_ranks()) roster_->Miss(left);
    ending_ =
        Ending{absl::StrCat(roster_->Describe(rank), " failed: ", Plain(leave.failure(), kMostFailureBytes)), {rank}};
    return;
  }
  const StreamId stream = roster_->seat(rank).stream;
  effects.actions->outputs.push_back(CloseStream{stream, absl::OkStatus()});
  if (leave.returns() && links_ != nullptr) return Vacate(rank, true, effects);
  *effects.record_changed = true;
  const std::string why = leave.reason().empty() ? "" : absl::StrCat(": ", Plain(leave.reason()));
  Tell(LogLine::Level::kInform, absl::StrCat(roster_->Describe(rank), " left in order", why), effects);
  Vacate(rank, false, effects);
}

void RunningEpoch::Return(uint32_t rank, Effects effects) {
  if (roster_->seat(rank).left) return;
  if (const StreamId stream = roster_->seat(rank).stream; stream != 0) {
    effects.actions->outputs.push_back(CloseStream{stream, absl::AbortedError("the worker has joined again")});
  }
  Vacate(rank, true, effects);
  if (reattachment_ == nullptr) return;
  reattachment_->Leave(rank);
  if (roster_->staying() > 0) SettleReattachment(effects);
}

void RunningEpoch::Vacate(uint32_t rank, bool returns, Effects effects) {
  roster_->Leave(rank, returns);
  Notices notices;
  groups_.Leave(roster_->Describe(rank), &notices);
  Deliver(notices, effects);
}

void RunningEpoch::Lose(uint32_t rank, const std::string& claim) {
  if (!ending_.has_value()) ending_ = Ending{absl::StrCat(roster_->Describe(rank), " was lost: ", claim), {rank}};
}

void RunningEpoch::SendToAll(const SharedMessage& message, Effects effects) {
  for (const uint32_t rank : roster_->Staying()) {
    if (roster_->seat(rank).stream != 0) SendTo(rank, message, effects);
  }
}

void RunningEpoch::LosePeer(uint32_t reporter, const v1::PeerLost& report, absl::Time now) {
  const uint32_t lost = report.rank();
  if (roster_->seat(lost).left || ending_.has_value()) return;
  if (!report.ended_by().empty()) {
    ending_ = Ending{Plain(report.ended_by(), 1024), {lost}};
    ending_->is_hearsay = true;
    return;
  }
  const std::string evidence = report.evidence().empty() ? "no evidence given" : Plain(report.evidence(), 400);
  const bool is_heard = roster_->seat(lost).stream != 0;
  const bool is_elsewhere = roster_->seat(lost).member.host_id() != roster_->seat(reporter).member.host_id();
  if (links_ != nullptr && is_heard && is_elsewhere) return accusations_.Add(reporter, lost, evidence, now);
  Lose(lost, SeenBy(evidence, reporter));
}

void RunningEpoch::JudgeAccusations(absl::Time now) {
  std::vector<Roster::Loss> losses = accusations_.Judge(*roster_, links_, now);
  if (losses.empty()) return;
  ending_ = Ending{};
  ending_->is_estranged = true;
  for (const Roster::Loss& loss : losses) ending_->lost.push_back(loss.rank);
  absl::c_sort(ending_->lost);
  ending_->reason = roster_->DescribeLosses(std::move(losses));
}

void RunningEpoch::Refuse(uint32_t rank, const absl::Status& status, Effects effects) {
  effects.actions->outputs.push_back(CloseStream{roster_->seat(rank).stream, status});
  roster_->Detach(rank, std::string(status.message()), effects.now);
  Tell(LogLine::Level::kWarn, absl::StrCat(roster_->Describe(rank), " was refused: ", status.message()), effects);
}

void RunningEpoch::Detach(uint32_t rank, const std::string& evidence, Effects effects) {
  roster_->Detach(rank, evidence, effects.now);
  const std::string line =
      absl::StrCat("the stream of ", roster_->Describe(rank), " ended: ", roster_->seat(rank).stream_end);
  effects.actions->outputs.push_back(LogLine{LogLine::Level::kInform, line});
  const std::string claim = accusations_.Against(rank);
  if (!claim.empty() && !roster_->seat(rank).left) Lose(rank, claim);
}

void RunningEpoch::Advance(Effects effects) {
  if (ending_.has_value()) return;
  ending_ = FindLoss(effects.now);
  if (!ending_.has_value() && accusations_.deadline() <= effects.now) JudgeAccusations(effects.now);
  if (ending_.has_value()) return;
  if (reattachment_ != nullptr && reattachment_->IsSettled(effects.now)) FinishReattachment(effects);
  if (reattachment_ != nullptr) return;
  Work(effects);
  Notices notices;
  const std::string stall = stalls_.Advance(effects.now, &notices);
  if (!stall.empty()) {
    last_stall_ = stall;
    last_stall_at_ = effects.now;
    Tell(options_.logs_beside_workers ? LogLine::Level::kInform : LogLine::Level::kWarn, stall, effects);
  }
  Deliver(notices, effects);
  if (stalls_.overdue().empty()) return;
  ending_ = Ending{roster_->DescribeLosses(stalls_.overdue()), {}};
  for (const Roster::Loss& loss : stalls_.overdue()) ending_->lost.push_back(loss.rank);
}

std::optional<RunningEpoch::Ending> RunningEpoch::FindLoss(absl::Time now) const {
  std::vector<Roster::Loss> gone = roster_->Silent(now);
  Ending ending;
  ending.lost_code = absl::StatusCode::kDeadlineExceeded;
  if (gone.empty() && reattachment_ != nullptr && reattachment_->Deadline() <= now) {
    for (const uint32_t rank : reattachment_->missing()) {
      gone.push_back({rank, absl::StrCat("it did not come back within ", ShowDuration(options_.reattach_window),
                                         " after the coordinator's restart")});
    }
  }
  if (gone.empty()) return std::nullopt;
  for (const Roster::Loss& loss : gone) ending.lost.push_back(loss.rank);
  absl::c_sort(ending.lost);
  ending.reason = roster_->DescribeLosses(std::move(gone));
  return ending;
}

absl::Time RunningEpoch::Deadline() const {
  if (ending_.has_value()) return absl::InfiniteFuture();
  return std::min({roster_->Deadline(), accusations_.deadline(),
                   reattachment_ != nullptr ? reattachment_->Deadline() : std::min(next_work_, stalls_.Deadline())});
}

bool RunningEpoch::IsForsaken() const {
  if (reattachment_ != nullptr || roster_->staying() < roster_->size()) return false;
  for (uint32_t rank = 0; rank < roster_->size(); ++rank) {
    if (roster_->seat(rank).stream != 0) return false;
  }
  return true;
}

void RunningEpoch::End(const Ending& ending, bool job_ended, Effects effects) {
  v1::CoordinatorMessage ending_message;
  v1::EpochEnded* ended = ending_message.mutable_epoch_ended();
  ended->set_epoch(epoch_.number());
  ended->set_reason(ending.reason);
  ended->mutable_lost_ranks()->Assign(ending.lost.begin(), ending.lost.end());
  ended->set_job_ended(job_ended);
  const SharedMessage message = Share(std::move(ending_message));
  for (const uint32_t rank : ending.lost) roster_->MarkLost(rank, ending.reason);
  for (const uint32_t rank : roster_->Staying()) {
    const StreamId stream = roster_->seat(rank).stream;
    const bool is_lost = absl::c_binary_search(ending.lost, rank);
    if (stream == 0) continue;
    if (!is_lost) SendTo(rank, message, effects);
    if (!is_lost && !job_ended) continue;
    effects.actions->outputs.push_back(
        CloseStream{stream, absl::Status(is_lost ? ending.lost_code : absl::StatusCode::kAborted, ending.reason)});
    if (!job_ended) roster_->Detach(rank, ending.reason, effects.now);
  }
}

void RunningEpoch::Deliver(const Notices& notices, Effects effects) {
  for (const Notice& notice : notices) {
    const SharedMessage message = Share(notice.message);
    for (const uint32_t rank : notice.ranks) {
      if (roster_->seat(rank).stream != 0) {
        SendTo(rank, message, effects, notice.is_refusal);
      } else if (message->has_mismatch() && !notice.is_refusal && !roster_->seat(rank).left) {
        // When the rank comes back, the tables show slots, groups and refused groups; a mismatch would be forgotten.
        owed_.Add(rank, message);
      }
    }
  }
}

void RunningEpoch::SendTo(uint32_t rank, const SharedMessage& message, Effects effects, bool is_refusal) {
  if (IsAboutTensors(*message)) ++negotiation_messages_;
  if (!is_refusal) owed_.Sent(rank, message);
  effects.actions->outputs.push_back(Send{roster_->seat(rank).stream, message});
}

void RunningEpoch::Reserve(Effects effects) {
  while (negotiation_.next_slot() - 1 > reserved_.slots) {
    reserved_.slots += kSlotBlock;
    *effects.record_changed = true;
  }
  while (groups_.next_number() - 1 > reserved_.groups) {
    reserved_.groups += kGroupBlock;
    *effects.record_changed = true;
  }
}

std::vector<v1::WorkerStatus> RunningEpoch::Workers(absl::Time now) const {
  std::vector<v1::WorkerStatus> workers(roster_->size());
  for (uint32_t rank = 0; rank < roster_->size(); ++rank) {
    const Roster::Seat& seat = roster_->seat(rank);
    v1::WorkerStatus& worker = workers[rank];
    worker.set_rank(rank);
    *worker.mutable_member() = seat.member;
    const bool is_missing = reattachment_ != nullptr && reattachment_->missing().contains(rank);
    if (!seat.left && !is_missing) worker.set_silence_ms(absl::ToInt64Milliseconds(now - seat.heard));
    worker.set_batches(seat.batches);
    if (seat.gpu.has_value()) *worker.mutable_gpu() = *seat.gpu;
    worker.set_missed(seat.missed);
    if (!seat.left) diagnosis_.Describe(rank, now, &worker);
    if (seat.left || seat.missed) {
      worker.set_state("left");
    } else if (!seat.lost.empty()) {
      worker.set_state(absl::StrCat("lost: ", seat.lost));
    } else {
      worker.set_state(seat.drained ? "draining" : "live");
    }
  }
  return workers;
}

void RunningEpoch::Tell(LogLine::Level level, const std::string& sentence, Effects effects) {
  history_->Add(sentence, effects.now);
  effects.actions->outputs.push_back(LogLine{level, sentence});
}

}  // namespace farandole
