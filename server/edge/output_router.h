#ifndef FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_
#define FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_

#include <memory>

#include "server/edge/call_table.h"
#include "server/edge/stream_table.h"
#include "server/loop/output_receiver.h"
#include "server/metrics/metrics.h"
#include "server/spans/otlp_options.h"
#include "server/spans/span_exporter.h"

namespace farandole {

// Connects the jobs' outputs with the streams and calls that wait for them, and with the collector of spans. Owned by
// the coordinator; any thread.
class OutputRouter : public OutputReceiver {
 public:
  void Deliver(Output output) override;

  // Sends the jobs' spans from now on; before any output. `metrics` outlives this.
  void ExportSpans(const OtlpOptions& options, Metrics* metrics);
  // After all outputs. Waits for the collector, for a short time.
  void StopSpans();

  CallTable& calls() { return calls_; }
  StreamTable& streams() { return streams_; }

 private:
  CallTable calls_;
  StreamTable streams_;
  // Null: no spans are made.
  std::unique_ptr<SpanExporter> spans_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_
