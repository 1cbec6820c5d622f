#include "server/job/spans/run_trace.h"

#include <algorithm>
#include <optional>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "base/job_state.h"
#include "base/text/trace_parent.h"

namespace farandole {
namespace {

constexpr size_t kTraceIdBytes = 16;
constexpr size_t kSpanIdBytes = 8;

int64_t Number(uint64_t number) { return static_cast<int64_t>(number); }

// The time of the record; `otherwise` where it is none, or after that.
absl::Time UnlessLater(int64_t unix_ms, absl::Time otherwise) {
  return unix_ms <= 0 ? otherwise : std::min(absl::FromUnixMillis(unix_ms), otherwise);
}

std::vector<SpanAttribute> Describe(const v1::Member& member) {
  return {{"farandole.worker.incarnation", member.incarnation()},
          {"farandole.worker.launch_index", Number(member.launch_index())},
          {"host.name", member.hostname()},
          {"process.pid", member.pid()}};
}

void Append(std::vector<SpanAttribute> more, std::vector<SpanAttribute>* attributes) {
  for (SpanAttribute& attribute : more) attributes->push_back(std::move(attribute));
}

void SetError(const std::string& why, Span* span) {
  span->is_error = true;
  span->error = why;
}

}  // namespace

void RunTrace::Enter(v1::JobState before, absl::Time at) {
  const v1::JobState state = record_.state();
  if (state == v1::JOB_STATE_FORMING && !IsActive(before)) BeginRun(at);
  if (!record_.trace().has_run()) return;
  if (trace().has_phase()) EndPhase(before, at);
  if (state != v1::JOB_STATE_FORMING) EndCheckpoints(at);
  if (IsActive(state)) return BeginPhase(at);
  EndRun(at);
}

void RunTrace::BeginRun(absl::Time at) {
  const v1::Launch& launch = record_.launch();
  const bool is_new_launch = !launch.nonce().empty() && launch.nonce() != record_.trace().nonce();
  trace().Clear();
  trace().set_nonce(launch.nonce());
  const std::optional<TraceParent> parent = ParseTraceParent(launch.traceparent());
  if (parent.has_value() && !parent->is_sampled) return;
  trace().set_trace_id(parent.has_value() ? parent->trace_id : random_bytes_(kTraceIdBytes));
  // A launch may begin a second run.
  const absl::Time launched = is_new_launch ? UnlessLater(launch.since_unix_ms(), at) : at;
  const absl::Time came = is_new_launch ? UnlessLater(launch.queued_unix_ms(), launched) : at;
  *trace().mutable_run() = Open(parent.has_value() ? parent->span_id : "", came);
  if (came < launched) End(Open(trace().run().id(), came), "queue", launched);
  if (launched < at) End(Open(trace().run().id(), launched), "launch", at);
}

void RunTrace::BeginPhase(absl::Time at) {
  *trace().mutable_phase() = Open(trace().run().id(), at);
  events_.clear();
  dropped_events_ = 0;
  lost_ranks_.clear();
  is_lost_ = false;
}

void RunTrace::EndPhase(v1::JobState before, absl::Time at) {
  const bool was_running = before == v1::JOB_STATE_RUNNING;
  const v1::Epoch& epoch = record_.epoch();
  Span& span = End(trace().phase(), was_running ? "epoch" : "form", at);
  span.events = std::exchange(events_, {});
  span.dropped_events = dropped_events_;
  const bool has_failed = record_.state() == v1::JOB_STATE_FAILED;
  if (has_failed || (was_running && is_lost_)) SetError(record_.reason(), &span);
  const bool is_formed = was_running || record_.state() == v1::JOB_STATE_RUNNING;
  span.attributes.emplace_back("farandole.epoch", Number(is_formed ? epoch.number() : epoch.number() + 1));
  if (!is_formed) span.attributes.emplace_back("farandole.wanted_size", Number(record_.wanted_size()));
  if (is_formed) {
    absl::btree_set<std::string> hosts;
    for (const v1::Member& member : epoch.members()) hosts.insert(member.hostname());
    span.attributes.emplace_back("farandole.size", Number(record_.size()));
    span.attributes.emplace_back("farandole.hosts", Number(hosts.size()));
    if (hosts.size() > kMostHosts) hosts.erase(std::next(hosts.begin(), kMostHosts), hosts.end());
    span.attributes.emplace_back("farandole.host_names", std::vector<std::string>(hosts.begin(), hosts.end()));
    span.attributes.emplace_back("farandole.form_reason", epoch.reason());
  }
  if (was_running) span.attributes.emplace_back("farandole.end_reason", record_.reason());
  if (!lost_ranks_.empty()) span.attributes.emplace_back("farandole.lost_ranks", lost_ranks_);
  trace().clear_phase();
}

void RunTrace::EndRun(absl::Time at) {
  Span& span = End(trace().run(), "run", at);
  if (record_.state() == v1::JOB_STATE_FAILED) SetError(record_.reason(), &span);
  std::vector<SpanAttribute>& attributes = span.attributes;
  if (!record_.launch().who().empty()) attributes.emplace_back("farandole.launched_by", record_.launch().who());
  attributes.emplace_back("farandole.state", std::string(StateName(record_.state())));
  attributes.emplace_back("farandole.end_reason", record_.reason());
  attributes.emplace_back("farandole.wanted_size", Number(record_.wanted_size()));
  attributes.emplace_back("farandole.last_epoch", Number(record_.epoch().number()));
  attributes.emplace_back("farandole.elastic", record_.has_elastic());
  if (record_.has_elastic()) {
    attributes.emplace_back("farandole.min_size", Number(record_.elastic().min_size()));
    attributes.emplace_back("farandole.max_size", Number(record_.elastic().max_size()));
    attributes.emplace_back("farandole.resets", Number(record_.resets()));
  }
  trace().clear_run();
  trace().clear_trace_id();
}

void RunTrace::NoteJoin(const v1::Member& member, absl::Time at) {
  AddEvent({"farandole.worker.joined", at, Describe(member)});
}

void RunTrace::NoteLoss(absl::Span<const uint32_t> ranks, const std::string& reason, absl::Time at) {
  is_lost_ = true;
  for (const uint32_t rank : ranks) {
    lost_ranks_.push_back(rank);
    SpanEvent event{"farandole.worker.lost", at, {{"farandole.rank", Number(rank)}}};
    if (rank < static_cast<uint32_t>(record_.epoch().members_size()))
      Append(Describe(record_.epoch().members(static_cast<int>(rank))), &event.attributes);
    event.attributes.emplace_back("farandole.reason", reason);
    AddEvent(std::move(event));
  }
}

void RunTrace::NoteRestart(absl::Time at) { AddEvent({"farandole.coordinator.restarted", at, {}}); }

void RunTrace::BeginCheckpoint(const std::string& name, int64_t step, uint64_t token, absl::Time at) {
  if (!record_.trace().has_run()) return;
  const auto& open = trace().checkpoints();
  const auto earlier = std::find_if(open.begin(), open.end(), [&](const auto& one) { return one.name() == name; });
  if (earlier != open.end()) {
    EndCheckpoint(TakeCheckpoint(earlier->token()), "superseded",
                  absl::StrCat("token ", token, " was granted before it was written"), at, {});
  }
  v1::TraceRecord::OpenCheckpoint* const begun = trace().add_checkpoints();
  *begun->mutable_span() = Open(trace().has_phase() ? trace().phase().id() : trace().run().id(), at);
  begun->set_name(name);
  begun->set_step(step);
  begun->set_token(token);
  begun->set_epoch(record_.epoch().number());
}

void RunTrace::CommitCheckpoint(const v1::Checkpoint& checkpoint, absl::Time at) {
  const v1::TraceRecord::OpenCheckpoint open = TakeCheckpoint(checkpoint.token());
  EndCheckpoint(open, "written", "", at,
                {{"farandole.checkpoint.size_bytes", Number(checkpoint.size_bytes())},
                 {"farandole.checkpoint.path", checkpoint.path()}});
}

void RunTrace::GiveUpCheckpoint(uint64_t token, absl::Time at) {
  EndCheckpoint(TakeCheckpoint(token), "given up", "its writer has given it up", at, {});
}

void RunTrace::EndCheckpoints(absl::Time at) {
  while (record_.trace().checkpoints_size() > 0) {
    const v1::TraceRecord::OpenCheckpoint open = TakeCheckpoint(trace().checkpoints(0).token());
    EndCheckpoint(open, "abandoned", absl::StrCat("epoch ", open.epoch(), " ended before it was written"), at, {});
  }
}

void RunTrace::EndCheckpoint(const v1::TraceRecord::OpenCheckpoint& open, const char* outcome, const std::string& why,
                             absl::Time at, std::vector<SpanAttribute> more) {
  if (!open.has_span()) return;
  Span& span = End(open.span(), "checkpoint", at);
  span.attributes.emplace_back("farandole.epoch", Number(open.epoch()));
  span.attributes.emplace_back("farandole.checkpoint.name", open.name());
  span.attributes.emplace_back("farandole.checkpoint.step", open.step());
  span.attributes.emplace_back("farandole.checkpoint.token", Number(open.token()));
  span.attributes.emplace_back("farandole.checkpoint.outcome", std::string(outcome));
  Append(std::move(more), &span.attributes);
  if (!why.empty()) SetError(why, &span);
}

v1::TraceRecord::OpenCheckpoint RunTrace::TakeCheckpoint(uint64_t token) {
  for (int i = 0; i < record_.trace().checkpoints_size(); ++i) {
    if (record_.trace().checkpoints(i).token() != token) continue;
    v1::TraceRecord::OpenCheckpoint open = std::move(*trace().mutable_checkpoints(i));
    trace().mutable_checkpoints()->DeleteSubrange(i, 1);
    return open;
  }
  return {};
}

void RunTrace::AddEvent(SpanEvent event) {
  if (!record_.trace().has_phase()) return;
  if (events_.size() >= kMostEvents) {
    ++dropped_events_;
    return;
  }
  events_.push_back(std::move(event));
}

RunTrace::OpenSpan RunTrace::Open(const std::string& parent_id, absl::Time at) const {
  OpenSpan open;
  open.set_id(random_bytes_(kSpanIdBytes));
  open.set_parent_id(parent_id);
  open.set_began_unix_nanos(absl::ToUnixNanos(at));
  return open;
}

Span& RunTrace::End(const OpenSpan& open, const char* name, absl::Time at) {
  Span& span = ended_.emplace_back();
  span.trace_id = record_.trace().trace_id();
  span.id = open.id();
  span.parent_id = open.parent_id();
  span.name = name;
  span.began = absl::FromUnixNanos(open.began_unix_nanos());
  // The wall clock may have been set back.
  span.ended = std::max(span.began, at);
  span.attributes = {{"farandole.tenant", record_.tenant()}, {"farandole.job", record_.job()}};
  return span;
}

}  // namespace farandole
