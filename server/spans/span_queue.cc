#include "server/spans/span_queue.h"

#include <utility>

#include "server/spans/otlp_json.h"

namespace farandole {

size_t SpanQueue::Add(Span span, absl::Time now) {
  const size_t bytes = BytesOf(span);
  waiting_.push_back({std::move(span), bytes, now});
  bytes_ += bytes;
  return DropOldest();
}

std::vector<Span> SpanQueue::TakeBatch() {
  std::vector<Span> batch;
  size_t bytes = 0;
  while (!waiting_.empty() && batch.size() < bounds_.batch_spans) {
    Waiting& next = waiting_.front();
    if (!batch.empty() && bytes + next.bytes > bounds_.batch_bytes) break;
    bytes += next.bytes;
    bytes_ -= next.bytes;
    batch.push_back(std::move(next.span));
    waiting_.pop_front();
  }
  return batch;
}

size_t SpanQueue::PutBack(std::vector<Span> batch) {
  for (auto span = batch.rbegin(); span != batch.rend(); ++span) {
    const size_t bytes = BytesOf(*span);
    // They are due.
    waiting_.push_front({std::move(*span), bytes, absl::InfinitePast()});
    bytes_ += bytes;
  }
  return DropOldest();
}

size_t SpanQueue::DropOldest() {
  size_t dropped = 0;
  for (; bytes_ > bounds_.bytes && !waiting_.empty(); ++dropped) {
    bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
  }
  return dropped;
}

absl::Time SpanQueue::Due() const {
  if (waiting_.empty()) return absl::InfiniteFuture();
  if (waiting_.size() >= bounds_.batch_spans || bytes_ >= bounds_.batch_bytes) return absl::InfinitePast();
  return waiting_.front().came + bounds_.gather;
}

}  // namespace farandole
