#include "worker/member/timeline_relay.h"

#include <zlib.h>

#include <utility>

namespace farandole {
namespace {

constexpr int kMostUnanswered = 2;
constexpr size_t kMostLinesBytes = 4 << 20;
// As timeline.proto has it.
constexpr size_t kMostChunkBytes = 1 << 20;
// Empty chunks at the beginning, by which the clocks are compared several times before there are events.
constexpr int kProbes = 8;

// "": it cannot be done.
std::string Compress(const std::string& text) {
  uLongf bytes = compressBound(text.size());
  std::string packed(bytes, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
                               reinterpret_cast<const Bytef*>(text.data()), text.size(), Z_BEST_SPEED);
  packed.resize(result == Z_OK ? bytes : 0);
  return packed;
}

}  // namespace

TimelineRelay::TimelineRelay(Timeline* timeline, int rank, std::string who, std::function<int64_t()> now_ns,
                             std::function<void(v1::TimelineChunk)> send)
    : timeline_(timeline), rank_(rank), who_(std::move(who)), now_ns_(std::move(now_ns)), send_(std::move(send)) {}

TimelineRelay::~TimelineRelay() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    recording_ = 0;
  }
  if (is_listening_) timeline_->Unlisten(this);
}

void TimelineRelay::Take(const v1::TimelineOrder& order) {
  const std::lock_guard<std::mutex> life(life_);
  if (is_over_) return;
  bool is_other = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_other = order.recording() != recording_ || !is_listening_;
    if (!is_other && order.sent_ns() != 0) {
      --unanswered_;
      clock_.Take(order.sent_ns(), order.coordinator_unix_ns(), now_ns_());
      if (order.is_on()) SendLocked(false);
    }
  }
  // An answer to a chunk of an earlier recording begins and ends nothing.
  if (is_other && order.sent_ns() != 0) return;
  if (order.is_on()) {
    if (is_other) Begin(order);
    return;
  }
  if (is_listening_) timeline_->Unlisten(this);
  is_listening_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  epoch_ = order.epoch();
  recording_ = order.recording();
  SendLocked(true);
  recording_ = 0;
}

void TimelineRelay::Begin(const v1::TimelineOrder& order) {
  if (is_listening_) timeline_->Unlisten(this);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    epoch_ = order.epoch();
    recording_ = order.recording();
    lines_.clear();
    text_ = std::make_unique<TimelineText>(rank_, who_, /*ahead_ns=*/0, &lines_);
    events_ = 0;
    dropped_ = 0;
    unanswered_ = 0;
    probes_ = 0;
    SendLocked(false);
  }
  is_listening_ = true;
  timeline_->Listen(this, order.marks_cycles(),
                    [this](const std::vector<TimelineEvent>& events, uint64_t dropped) { Add(events, dropped); });
}

void TimelineRelay::Add(const std::vector<TimelineEvent>& events, uint64_t dropped) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (recording_ == 0) return;
  dropped_ += dropped;
  for (const TimelineEvent& event : events) {
    if (lines_.size() > kMostLinesBytes) {
      ++dropped_;
      continue;
    }
    if (events_++ == 0) text_->BeginPart();
    text_->Add(event);
  }
  SendLocked(false);
}

void TimelineRelay::SendLocked(bool is_last) {
  if (!is_last && (unanswered_ >= kMostUnanswered || (events_ == 0 && probes_ >= kProbes))) return;
  const int64_t now_ns = now_ns_();
  v1::TimelineChunk chunk;
  chunk.set_epoch(epoch_);
  chunk.set_recording(recording_);
  chunk.set_is_last(is_last);
  if (events_ > 0) {
    std::string packed = Compress(lines_);
    if (packed.empty() || packed.size() > kMostChunkBytes) {
      dropped_ += events_;
    } else {
      chunk.set_lines_zlib(std::move(packed));
      chunk.set_lines_bytes(static_cast<uint32_t>(lines_.size()));
      chunk.set_events(events_);
    }
    lines_.clear();
    events_ = 0;
  }
  chunk.set_dropped(dropped_);
  if (clock_.is_known()) {
    chunk.set_ahead_ns(clock_.ahead_ns());
    chunk.set_error_ns(static_cast<uint64_t>(clock_.ErrorAt(now_ns)));
  }
  ++probes_;
  ++unanswered_;
  chunk.set_sent_ns(now_ns_());
  send_(std::move(chunk));
}

void TimelineRelay::Renew() {
  const std::lock_guard<std::mutex> life(life_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (recording_ == 0) return;
  unanswered_ = 0;
  // One at least, so that a coordinator that does not record says so.
  probes_ = 0;
  SendLocked(false);
}

void TimelineRelay::Finish() {
  const std::lock_guard<std::mutex> life(life_);
  is_over_ = true;
  if (!is_listening_) return;
  timeline_->Unlisten(this);
  is_listening_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  SendLocked(true);
  recording_ = 0;
}

}  // namespace farandole
