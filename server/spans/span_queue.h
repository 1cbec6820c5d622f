#ifndef FARANDOLE_SERVER_SPANS_SPAN_QUEUE_H_
#define FARANDOLE_SERVER_SPANS_SPAN_QUEUE_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "server/job/spans/span.h"

namespace farandole {

// Spans that wait to be sent. When they are more than its bound, it drops the oldest. Pure, not thread-safe.
class SpanQueue {
 public:
  struct Bounds {
    // The most bytes of all spans that wait.
    size_t bytes = 8 << 20;
    // The most spans and bytes of one batch; a larger span is a batch of its own.
    size_t batch_spans = 512;
    size_t batch_bytes = 1 << 20;
    // A span waits so long for others to go with it.
    absl::Duration gather = absl::Seconds(1);
  };

  explicit SpanQueue(const Bounds& bounds) : bounds_(bounds) {}

  // Returns how many were dropped.
  size_t Add(Span span, absl::Time now);
  // The oldest spans, those of the next batch.
  std::vector<Span> TakeBatch();
  // The last batch could not be sent. Returns how many of it were dropped.
  size_t PutBack(std::vector<Span> batch);
  // When the next batch is to be sent; an empty queue: never.
  absl::Time Due() const;
  size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    Span span;
    size_t bytes = 0;
    absl::Time came;
  };

  size_t DropOldest();

  const Bounds bounds_;
  std::deque<Waiting> waiting_;
  size_t bytes_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_SPAN_QUEUE_H_
