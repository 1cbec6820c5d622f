#include "server/job/ledger.h"

#include <algorithm>

#include "server/job/rules/wording.h"

namespace farandole {

Ledger::Ledger(std::string tenant, std::string name) : tenant_(std::move(tenant)), name_(std::move(name)) {
  record_.set_tenant(tenant_);
  record_.set_job(name_);
}

void Ledger::TraceRuns(std::function<std::string(size_t)> random_bytes) {
  trace_ = std::make_unique<RunTrace>(&record_, std::move(random_bytes));
}

void Ledger::AddSpans() {
  for (Span& span : trace_->TakeSpans()) actions_.outputs.push_back(std::move(span));
}

void Ledger::BeginStep(absl::Time now, absl::Duration wall_ahead) {
  now_ = std::max(now_, now);
  wall_ahead_ = wall_ahead;
  history_.SetWallAhead(wall_ahead);
  actions_ = Actions();
  is_changed_ = false;
  members_row_.clear();
}

v1::JobRecord* Ledger::Change() {
  is_changed_ = true;
  return &record_;
}

void Ledger::RecordStands(const Roster& roster) {
  v1::JobRecord* const record = Change();
  record->clear_left();
  record->clear_lost();
  record->clear_drained();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    const Roster::Seat& seat = roster.seat(rank);
    if (seat.left && !seat.returns) record->add_left(rank);
    if (!seat.lost.empty() && record->has_elastic()) record->add_lost(rank);
    if (seat.drained) record->add_drained(rank);
  }
}

void Ledger::Enter(v1::JobState state, const std::string& reason, LogLine::Level level) {
  v1::JobRecord* const record = Change();
  const v1::JobState before = record->state();
  record->set_state(state);
  record->set_reason(Plain(reason, History::kMostSentenceBytes));
  const bool has_ended = state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_FINISHED;
  if (has_ended) ended_at_ = now_;
  record->set_ended_unix_ms(has_ended ? absl::ToUnixMillis(now_ + wall_ahead_) : 0);
  Tell(level, reason);
  Trace([before](RunTrace& trace, absl::Time at) { trace.Enter(before, at); });
}

void Ledger::Tell(LogLine::Level level, const std::string& sentence) {
  history_.Add(sentence, now_);
  actions_.outputs.push_back(LogLine{level, sentence});
}

void Ledger::Send(StreamId stream, SharedMessage message) {
  actions_.outputs.push_back(farandole::Send{stream, std::move(message)});
}

void Ledger::Close(StreamId stream, const absl::Status& status) {
  actions_.outputs.push_back(CloseStream{stream, status});
}

}  // namespace farandole
