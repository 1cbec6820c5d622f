#ifndef FARANDOLE_SERVER_SPANS_SPAN_EXPORTER_H_
#define FARANDOLE_SERVER_SPANS_SPAN_EXPORTER_H_

#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "server/job/spans/span.h"
#include "server/metrics/metrics.h"
#include "server/spans/otlp_options.h"
#include "server/spans/span_queue.h"

namespace farandole {

// How often a collector is asked that has not taken a batch, and how long the last spans have.
struct ExportTimes {
  absl::Duration retry = absl::Seconds(1);
  absl::Duration longest_retry = absl::Seconds(30);
  absl::Duration farewell = absl::Seconds(2);
};

// Sends spans to a collector by OTLP. A thread of its own waits for the collector; nobody else does. A batch that
// cannot be delivered, or is answered by 429, 502, 503 or 504, is tried again; one that is refused is dropped. Owned by
// the coordinator; any thread.
class SpanExporter {
 public:
  // `metrics` outlives it.
  SpanExporter(OtlpOptions options, const SpanQueue::Bounds& bounds, const ExportTimes& times, Metrics* metrics);
  // Stops.
  ~SpanExporter();

  void Add(Span span);
  // Sends those that wait, for times.farewell at most and without a second try; the others are dropped.
  void Stop();

 private:
  class Queue;

  const ExportTimes times_;
  // Shared with the thread, which outlives the exporter if the system does not end its look-up of the collector's name.
  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_SPAN_EXPORTER_H_
