#include "server/job/timeline_record.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// The last chunks of ranks that live come within a tenth of a second.
constexpr absl::Duration kStopTime = absl::Seconds(2);
constexpr absl::Duration kKeptAfterEnd = absl::Hours(1);
// Of one answer.
constexpr size_t kMostAnswerBytes = 1 << 20;

int64_t BytesOf(const v1::TimelinePart& part) { return static_cast<int64_t>(part.SpaceUsedLong()); }

}  // namespace

TimelineRecord::~TimelineRecord() { Clear(); }

void TimelineRecord::On(const TimelineOrdered& event) {
  const absl::Status done = event.is_on ? Start(event.marks_cycles) : Stop(event.call);
  if (!done.ok()) return job_.ledger.Answer<v1::RecordTimelineResponse>(event.call, done);
  if (!event.is_on) return;  // Settle answers
  v1::RecordTimelineResponse response;
  response.set_sentence(absl::StrCat("timeline ", recording_, " of job ", job_.ledger.name(), " begins"));
  job_.ledger.Answer<v1::RecordTimelineResponse>(event.call, std::move(response));
}

absl::Status TimelineRecord::Start(bool marks_cycles) {
  if (!job_.IsOngoing()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_.ledger.name(), " has no workers that could record: ", job_.ledger.record().reason()));
  }
  if (is_on_) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job_.ledger.name(),
                                                      " records a timeline already; stop that one first (farandole "
                                                      "timeline stop)"));
  }
  Clear();
  ++recording_;
  is_on_ = true;
  marks_cycles_ = marks_cycles;
  wall_ahead_ = job_.ledger.wall_ahead();
  started_unix_ms_ = absl::ToUnixMillis(job_.ledger.now() + wall_ahead_);
  told_epoch_ = 0;
  job_.ledger.Tell(LogLine::Level::kInform, absl::StrCat("an operator started timeline ", recording_));
  job_.ledger.MarkChanged();
  return absl::OkStatus();
}

absl::Status TimelineRecord::Stop(CallId call) {
  if (!is_on_) return absl::FailedPreconditionError(absl::StrCat("job ", job_.ledger.name(), " records no timeline"));
  is_on_ = false;
  if (job_.run != nullptr && told_epoch_ == job_.run->epoch().number()) {
    job_.run->SendToAll(Share(Order()), job_.ledger.effects());
    for (const uint32_t rank : job_.run->roster().Staying()) {
      if (job_.run->roster().seat(rank).stream != 0) unanswered_.insert(rank);
    }
  }
  stopping_.push_back(call);
  stop_until_ = job_.ledger.now() + kStopTime;
  job_.ledger.Tell(LogLine::Level::kInform, absl::StrCat("an operator stopped timeline ", recording_));
  job_.ledger.MarkChanged();
  return absl::OkStatus();
}

v1::CoordinatorMessage TimelineRecord::Order() const {
  v1::CoordinatorMessage message;
  v1::TimelineOrder* order = message.mutable_timeline_order();
  order->set_epoch(job_.ledger.record().epoch().number());
  order->set_recording(recording_);
  order->set_is_on(is_on_);
  order->set_marks_cycles(marks_cycles_);
  return message;
}

void TimelineRecord::Take(uint32_t rank, StreamId stream, const v1::TimelineChunk& chunk) {
  if (chunk.epoch() != job_.ledger.record().epoch().number()) return;
  const bool is_own = chunk.recording() == recording_ && recording_ != 0;
  if (!chunk.is_last()) {
    v1::CoordinatorMessage answer = Order();
    answer.mutable_timeline_order()->set_recording(chunk.recording());
    answer.mutable_timeline_order()->set_is_on(is_on_ && is_own);
    answer.mutable_timeline_order()->set_sent_ns(chunk.sent_ns());
    answer.mutable_timeline_order()->set_coordinator_unix_ns(absl::ToUnixNanos(job_.ledger.now() + wall_ahead_));
    job_.ledger.Send(stream, Share(std::move(answer)));
  }
  if (!is_own) return;
  Keep(rank, chunk);
  if (chunk.is_last()) unanswered_.erase(rank);
}

void TimelineRecord::Keep(uint32_t rank, const v1::TimelineChunk& chunk) {
  dropped_.Set(chunk.epoch(), rank, chunk.dropped());
  if (chunk.events() == 0) return;
  const v1::Member& member = job_.ledger.record().epoch().members(static_cast<int>(rank));
  v1::TimelinePart part;
  part.set_number(++last_number_);
  part.set_rank(rank);
  part.set_host_id(member.host_id());
  part.set_hostname(member.hostname());
  *part.mutable_chunk() = chunk;
  const int64_t bytes = BytesOf(part);
  while (!parts_.empty() && bytes_ + bytes > kMostBytes) ForgetFirst();
  while (!job_.options.timelines->Take(bytes)) {
    // All jobs together have more than there is room for.
    if (parts_.empty()) return void(forgotten_ += chunk.events());
    ForgetFirst();
  }
  bytes_ += bytes;
  parts_.push_back(std::move(part));
}

void TimelineRecord::ForgetFirst() {
  const int64_t bytes = BytesOf(parts_.front());
  forgotten_ += parts_.front().chunk().events();
  bytes_ -= bytes;
  job_.options.timelines->Return(bytes);
  parts_.pop_front();
}

void TimelineRecord::Clear() {
  while (!parts_.empty()) ForgetFirst();
  dropped_ = DroppedEvents();
  forgotten_ = 0;
  forget_at_ = absl::InfiniteFuture();
}

void TimelineRecord::Settle() {
  const bool is_over = !job_.IsOngoing();
  if (is_over) is_on_ = false;
  if (is_on_ && job_.run != nullptr && told_epoch_ != job_.run->epoch().number()) {
    told_epoch_ = job_.run->epoch().number();
    job_.run->SendToAll(Share(Order()), job_.ledger.effects());
  }
  if (!stopping_.empty() && (unanswered_.empty() || is_over || stop_until_ <= job_.ledger.now())) {
    v1::RecordTimelineResponse response;
    const std::string silent = unanswered_.empty()
                                   ? ""
                                   : absl::StrCat("; ", Count(unanswered_.size(), "rank"),
                                                  " did not answer, so that the last moments of these may be missing");
    response.set_sentence(absl::StrCat("timeline ", recording_, " of job ", job_.ledger.name(), " has ended", silent));
    for (const CallId call : std::exchange(stopping_, {}))
      job_.ledger.Answer<v1::RecordTimelineResponse>(call, v1::RecordTimelineResponse(response));
    unanswered_.clear();
    stop_until_ = absl::InfiniteFuture();
  }
  if (!is_over || parts_.empty()) {
    forget_at_ = absl::InfiniteFuture();
  } else if (forget_at_ == absl::InfiniteFuture()) {
    forget_at_ = job_.ledger.now() + kKeptAfterEnd;
  } else if (forget_at_ <= job_.ledger.now()) {
    Clear();
  }
}

absl::Time TimelineRecord::Deadline() const { return std::min(stop_until_, forget_at_); }

void TimelineRecord::On(const TimelineFetched& event) {
  if (recording_ == 0) {
    return job_.ledger.Answer<v1::GetTimelineResponse>(
        event.call, absl::NotFoundError(absl::StrCat("job ", job_.ledger.name(),
                                                     " has recorded no timeline since this coordinator has known it; "
                                                     "start one (farandole timeline start)")));
  }
  v1::GetTimelineResponse response;
  response.set_recording(recording_);
  response.set_is_on(is_on_);
  response.set_started_unix_ms(started_unix_ms_);
  response.set_dropped(dropped_.Sum());
  response.set_forgotten(forgotten_);
  if (event.from == kNoTimelineParts) response.set_next(last_number_ + 1);
  size_t bytes = 0;
  for (const v1::TimelinePart& part : parts_) {
    if (part.number() < event.from) continue;
    if (bytes >= kMostAnswerBytes) {
      response.set_next(part.number());
      break;
    }
    *response.add_parts() = part;
    bytes += static_cast<size_t>(BytesOf(part));
  }
  job_.ledger.Answer<v1::GetTimelineResponse>(event.call, std::move(response));
}

}  // namespace farandole
