// How scripts show what a job does.
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/op_text.h"
#include "farandole/v1/store.pb.h"
#include "server/job/rules/member_record.h"
#include "server/job/rules/wording.h"
#include "server/job/script.h"

namespace farandole {
namespace {

template <typename Members>
std::string ShowMembers(const Members& members) {
  return absl::StrJoin(members, " ", [](std::string* out, const v1::Member& member) {
    absl::StrAppend(out, member.pid(), "@", member.host_id());
  });
}

std::string ShowCheckpoint(const v1::Checkpoint& checkpoint) {
  return absl::StrCat(checkpoint.name(), " step=", checkpoint.step(), " token=", checkpoint.token(),
                      " epoch=", checkpoint.epoch(), " rank=", checkpoint.rank(), " path=", checkpoint.path(),
                      " size=", checkpoint.size_bytes(),
                      " committed=", checkpoint.committed_unix_ms() - 1'700'000'000'000);
}

std::string ShowWanted(const v1::WantedCheckpoint& wanted) {
  const auto after = [](int64_t unix_ms) { return unix_ms == 0 ? 0 : unix_ms - 1'700'000'000'000; };
  std::string text = absl::StrCat(" wanted ", wanted.serial(), " by \"", wanted.asker(), "\" times=", wanted.times(),
                                  " since=+", after(wanted.since_unix_ms()), "ms");
  if (wanted.told_unix_ms() != 0)
    absl::StrAppend(&text, " told=+", after(wanted.told_unix_ms()), "ms in epoch ", wanted.told_epoch());
  if (wanted.over_unix_ms() != 0) absl::StrAppend(&text, " over=+", after(wanted.over_unix_ms()), "ms");
  if (wanted.has_checkpoint()) absl::StrAppend(&text, " ", ShowCheckpoint(wanted.checkpoint()));
  if (!wanted.failure().empty()) absl::StrAppend(&text, " \"", wanted.failure(), "\"");
  return text;
}

std::string ShowSummary(const v1::JobSummary& summary) {
  std::string text =
      absl::StrCat(v1::JobState_Name(summary.state()), " epoch=", summary.epoch(), " size=", summary.size(),
                   " wanted=", summary.wanted_size(), " reason=\"", summary.reason(), "\"");
  if (summary.batches_per_second() > 0)
    absl::StrAppend(&text, absl::StrFormat(" batches_per_second=%.1f", summary.batches_per_second()));
  if (summary.has_steps_per_second())
    absl::StrAppend(&text, absl::StrFormat(" steps_per_second=%.1f", summary.steps_per_second()));
  if (summary.has_elastic()) absl::StrAppend(&text, " waiting=", summary.waiting(), " resets=", summary.resets());
  if (summary.has_gpus()) absl::StrAppend(&text, " gpus={", summary.gpus().ShortDebugString(), "}");
  if (!summary.last_stall().empty()) {
    absl::StrAppend(&text, " last_stall=\"", summary.last_stall(), "\" at +",
                    summary.last_stall_unix_ms() - 1'700'000'000'000, "ms");
  }
  return text;
}

struct SpanValueText {
  std::string operator()(const std::string& text) const { return absl::StrCat("\"", text, "\""); }
  std::string operator()(int64_t number) const { return absl::StrCat(number); }
  std::string operator()(bool is_so) const { return is_so ? "yes" : "no"; }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    return absl::StrCat("[", absl::StrJoin(list, ","), "]");
  }
};

std::string ShowAttributes(const std::vector<SpanAttribute>& attributes) {
  std::string text;
  for (const SpanAttribute& attribute : attributes) {
    // Of each span; and what random numbers make.
    if (attribute.key == "farandole.tenant" || attribute.key == "farandole.job" ||
        attribute.key == "farandole.worker.incarnation")
      continue;
    absl::StrAppend(&text, " ", absl::StripPrefix(attribute.key, "farandole."), "=",
                    std::visit(SpanValueText(), attribute.value));
  }
  return text;
}

std::string ShowSpan(const Span& span) {
  const auto at = [](absl::Time time) { return absl::StrCat("+", absl::ToUnixMillis(time) - 1'700'000'000'000, "ms"); };
  // A script's random bytes are all equal.
  const auto show = [](const std::string& id) { return absl::CHexEscape(id.substr(0, 1)); };
  std::string text =
      absl::StrCat("span ", span.name, " id=", show(span.id), " trace=", show(span.trace_id),
                   " parent=", show(span.parent_id), " ", at(span.began), " to ", at(span.ended),
                   ShowAttributes(span.attributes), span.is_error ? absl::StrCat(" error \"", span.error, "\"") : "");
  for (const SpanEvent& event : span.events)
    absl::StrAppend(&text, "\n  event ", at(event.at), " ", event.name, ShowAttributes(event.attributes));
  return text;
}

struct ReplyText {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const v1::JoinResponse& r) const {
    return absl::StrCat(" heartbeat=", r.heartbeat_interval_ms(), "ms silence=", r.silence_limit_ms(), "ms");
  }
  std::string operator()(const v1::CreateJobResponse& r) const { return absl::StrCat(" launch=", r.launch().nonce()); }
  std::string operator()(const v1::BeginCheckpointResponse& r) const { return absl::StrCat(" token=", r.token()); }
  std::string operator()(const v1::CommitCheckpointResponse& r) const {
    return r.has_checkpoint() ? absl::StrCat(" ", ShowCheckpoint(r.checkpoint())) : " given up";
  }
  std::string operator()(const v1::FindCheckpointResponse& r) const {
    return absl::StrCat(" ", ShowCheckpoint(r.checkpoint()));
  }
  std::string operator()(const v1::GetJobResponse& r) const {
    std::string text = absl::StrCat(" ", ShowSummary(r.summary()), "\nnegotiation_messages=", r.negotiation_messages());
    for (const v1::WorkerStatus& worker : r.workers()) {
      absl::StrAppend(&text, "\nworker rank=", worker.rank(), " ", worker.member().pid(), "@",
                      worker.member().host_id(), " silence=", worker.silence_ms(), "ms batches=", worker.batches(), " ",
                      worker.state());
      if (worker.missed()) absl::StrAppend(&text, " and is missed");
      if (worker.has_gpu()) absl::StrAppend(&text, " gpu={", worker.gpu().ShortDebugString(), "}");
    }
    if (r.has_wanted_checkpoint()) absl::StrAppend(&text, "\n", ShowWanted(r.wanted_checkpoint()).substr(1));
    for (const v1::BarredHost& host : r.barred_hosts()) {
      absl::StrAppend(&text, "\nbarred ", host.hostname(), " failures=", host.failures(), " for ", host.barred_ms(),
                      "ms");
    }
    for (const v1::HistoryEntry& entry : r.history()) {
      absl::StrAppend(&text, "\nhistory +", entry.at_unix_ms() - 1'700'000'000'000, "ms ", entry.sentence());
    }
    return text;
  }
  std::string operator()(const v1::ListCheckpointsResponse& r) const {
    std::string text = absl::StrCat(" checkpoints=", r.checkpoints_size());
    for (const v1::Checkpoint& checkpoint : r.checkpoints()) absl::StrAppend(&text, "\n", ShowCheckpoint(checkpoint));
    return text;
  }
  std::string operator()(const v1::DeleteCheckpointResponse& r) const {
    return absl::StrCat(" deleted ", ShowCheckpoint(r.checkpoint()));
  }
  std::string operator()(const v1::RequestCheckpointResponse& r) const { return ShowWanted(r.wanted()); }
  std::string operator()(const v1::AbortJobResponse&) const { return " aborted"; }
  std::string operator()(const v1::DeleteJobResponse&) const { return " deleted"; }
  std::string operator()(const v1::ReportExitResponse& r) const {
    return absl::StrCat(" job_over=", r.job_over() ? "yes" : "no", r.outlived() ? " outlived" : "",
                        " barred=", r.barred_ms(), "ms",
                        r.sentence().empty() ? "" : absl::StrCat(" \"", r.sentence(), "\""));
  }
  std::string operator()(const v1::ListLostResponse& r) const {
    std::string text;
    for (const v1::LostWorker& worker : r.workers()) {
      absl::StrAppend(&text, "\nlost index=", worker.launch_index(), " for ", worker.lost_for_ms(), "ms \"",
                      worker.sentence(), "\"");
    }
    return text;
  }
  std::string operator()(const v1::RecordTimelineResponse& r) const { return r.sentence(); }
  std::string operator()(const v1::GetTimelineResponse& r) const { return absl::StrCat("timeline: ", r.parts_size()); }
  std::string operator()(const v1::ListLoggedResponse& r) const { return absl::StrCat("logged: ", r.series_size()); }
  std::string operator()(const v1::DiagnoseResponse& r) const {
    return absl::StrCat(" evidence=", r.ranks_size(), " \"", r.sentence(), "\"");
  }
  std::string operator()(const v1::SurveyCollectivesResponse& r) const {
    return absl::StrCat(" costs=", r.costs_size(), " answered=", r.answered());
  }
  std::string operator()(const v1::ReportFlightResponse& r) const { return absl::StrCat(" \"", r.sentence(), "\""); }
  std::string operator()(const v1::DrainWorkersResponse& r) const {
    return absl::StrCat(" ranks=", ShowList(r.ranks()));
  }
};

}  // namespace

std::string ShowMessage(const v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kEpochFormed: {
      const v1::Epoch& m = message.epoch_formed();
      return absl::StrCat("epoch_formed ", m.number(), " [", ShowMembers(m.members()),
                          "] secret=", m.secret().substr(0, 1), "x", m.secret().size(), " \"", m.reason(), "\"");
    }
    case v1::CoordinatorMessage::kChangeWanted: {
      const v1::ChangeWanted& m = message.change_wanted();
      return absl::StrCat("change_wanted epoch=", m.epoch(), " serial=", m.serial(), " joining=", m.joining(),
                          " leaving=[", absl::StrJoin(m.leaving(), ","), "] \"", m.sentence(), "\"");
    }
    case v1::CoordinatorMessage::kCheckpointWanted:
      return absl::StrCat("checkpoint_wanted epoch=", message.checkpoint_wanted().epoch(),
                          " serial=", message.checkpoint_wanted().serial());
    case v1::CoordinatorMessage::kTimelineOrder:
      return absl::StrCat("timeline_order ", message.timeline_order().recording());
    case v1::CoordinatorMessage::kSlotAssigned: {
      const v1::SlotAssigned& m = message.slot_assigned();
      return absl::StrCat("slot_assigned epoch=", m.epoch(), " slot=", m.slot(), " ", m.name(), " group=", m.group(),
                          " ", ShowOp(m.op()));
    }
    case v1::CoordinatorMessage::kMismatch: {
      const v1::Mismatch& m = message.mismatch();
      const std::string dispute =
          m.disputed_slot() == 0
              ? absl::StrCat(" next=", m.next_ordinal(), m.joins() == 0 ? "" : absl::StrCat(" joins=", m.joins()))
              : absl::StrCat(" disputed_slot=", m.disputed_slot(), " attempt=", m.attempt());
      return absl::StrCat("mismatch epoch=", m.epoch(), " ", Plain(m.name(), 40), " group=", m.group(), dispute, " \"",
                          m.sentence(), "\"");
    }
    case v1::CoordinatorMessage::kGroupAssigned: {
      const v1::GroupAssigned& m = message.group_assigned();
      return absl::StrCat("group_assigned epoch=", m.epoch(), " group=", m.group().number(),
                          " ranks=", ShowList(m.group().ranks()),
                          m.error().empty() ? "" : absl::StrCat(" error=\"", m.error(), "\""));
    }
    case v1::CoordinatorMessage::kEpochEnded: {
      const v1::EpochEnded& m = message.epoch_ended();
      return absl::StrCat("epoch_ended epoch=", m.epoch(), " lost=", ShowList(m.lost_ranks()),
                          " job_ended=", m.job_ended() ? "yes" : "no", m.job_finished() ? " finished" : "", " \"",
                          m.reason(), "\"");
    }
    case v1::CoordinatorMessage::kStallNotice:
      return absl::StrCat("stall_notice epoch=", message.stall_notice().epoch(), " \"",
                          message.stall_notice().sentence(), "\"");
    case v1::CoordinatorMessage::kStallInquiry:
      return absl::StrCat("stall_inquiry epoch=", message.stall_inquiry().epoch(),
                          " inquiry=", message.stall_inquiry().inquiry());
    case v1::CoordinatorMessage::kEvidenceWanted:
      return absl::StrCat("evidence_wanted epoch=", message.evidence_wanted().epoch(),
                          " inquiry=", message.evidence_wanted().inquiry());
    case v1::CoordinatorMessage::kWaiting:
      return absl::StrCat("waiting \"", message.waiting().sentence(), "\"");
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  return "nothing";
}

std::string ShowReply(const Reply& reply) {
  if (!reply.status.ok()) return absl::StrCat("reply ", reply.status.ToString());
  return absl::StrCat("reply OK", std::visit(ReplyText(), reply.message));
}

void Script::Show(const Actions& actions) {
  ShowPersisted(actions.persist);
  // The same message to several workers is one line.
  std::string receivers, shown;
  const auto flush = [&] {
    if (!shown.empty()) Line(absl::StrCat(receivers, " <- ", shown));
    receivers.clear();
    shown.clear();
  };
  for (const Output& output : actions.outputs) {
    if (const auto* send = std::get_if<Send>(&output); send != nullptr) {
      const std::string name = NameOf(send->stream);
      const v1::Epoch& epoch = send->message->epoch_formed();
      for (int rank = 0; rank < epoch.members_size(); ++rank) {
        if (IncarnationOf(name) == epoch.members(rank).incarnation()) place_of_[name] = {epoch.number(), rank};
      }
      const std::string text = ShowMessage(*send->message);
      if (text != shown) flush();
      absl::StrAppend(&receivers, receivers.empty() ? "" : " ", name);
      shown = text;
      continue;
    }
    flush();
    if (const auto* close = std::get_if<CloseStream>(&output); close != nullptr) {
      Line(absl::StrCat(NameOf(close->stream), " closed ", close->status.ToString()));
      owner_of_.erase(close->stream);
    } else if (const auto* reply = std::get_if<Reply>(&output); reply != nullptr) {
      Line(ShowReply(*reply));
    } else if (const auto* span = std::get_if<Span>(&output); span != nullptr) {
      Line(ShowSpan(*span));
    } else {
      const LogLine& log = std::get<LogLine>(output);
      static constexpr const char* kLevels[] = {"inform", "warn", "error"};
      Line(absl::StrCat("log ", kLevels[static_cast<int>(log.level)], ": ", log.sentence));
    }
  }
  flush();
}

void Script::ShowPersisted(const StoreBatch& batch) {
  for (const std::string& key : batch.deletes) Line(absl::StrCat("delete ", key));
  for (const StoreRow& row : batch.puts) {
    if (absl::StatusOr<v1::Epoch> members = UnpackMembers(row.value);
        row.key.substr(0, 8) == "members/" && members.ok()) {
      Line(absl::StrCat("put ", row.key, " epoch=", members->number(), " [", ShowMembers(members->members()), "]"));
      continue;
    }
    v1::JobRecord record;
    if (row.key.substr(0, 4) != "job/" || !record.ParseFromString(row.value)) {
      Line(absl::StrCat("put ", row.key));
      continue;
    }
    std::string elastic;
    if (record.has_elastic()) {
      absl::StrAppend(&elastic, " lost=", ShowList(record.lost()), " drained=", ShowList(record.drained()),
                      " resets=", record.resets(), record.epoch_ended() ? " ended" : "");
    }
    Line(absl::StrCat("put ", row.key, " ", v1::JobState_Name(record.state()), " epoch=", record.epoch().number(), " [",
                      record.size(), "] left=", ShowList(record.left()), " slots<=", record.slots_reserved(),
                      " groups<=", record.groups_reserved(), " token=", record.last_token(), elastic));
  }
}

void Script::Summary(const Arguments&) {
  Line(absl::StrCat(ShowSummary(shell_->job().Summary()), shell_->job().IsIdle() ? " idle" : ""));
}

void Script::Rows(const Arguments&) {
  for (const auto& [key, value] : shell_->rows()) Line(key);
}

void Script::Tick(const Arguments&) {
  if (shell_->next_tick() == absl::InfiniteFuture()) return Line("no tick is wanted");
  Line(absl::StrCat("next tick in ", ShowDuration(shell_->next_tick() - shell_->now())));
}

std::string Script::NameOf(StreamId stream) const {
  const auto it = owner_of_.find(stream);
  if (it == owner_of_.end()) return absl::StrCat("stream ", stream);
  return stream_of_.at(it->second) == stream ? it->second : absl::StrCat(it->second, " (stream ", stream, ")");
}

}  // namespace farandole
