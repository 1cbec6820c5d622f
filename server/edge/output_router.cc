#include "server/edge/output_router.h"

#include <memory>
#include <utility>
#include <variant>

#include "server/edge/attach_stream.h"

namespace farandole {

void OutputRouter::Deliver(Output output) {
  if (auto* send = std::get_if<Send>(&output)) {
    if (std::shared_ptr<AttachStream> stream = streams_.Find(send->stream))
      stream->Send(std::move(send->message), std::move(send->charge));
  } else if (auto* close = std::get_if<CloseStream>(&output)) {
    if (std::shared_ptr<AttachStream> stream = streams_.Find(close->stream)) stream->Close(close->status);
  } else if (auto* reply = std::get_if<Reply>(&output)) {
    calls_.Answer(std::move(*reply));
  } else if (auto* span = std::get_if<Span>(&output); span != nullptr && spans_ != nullptr) {
    spans_->Add(std::move(*span));
  }
}

void OutputRouter::ExportSpans(const OtlpOptions& options, Metrics* metrics) {
  spans_ = std::make_unique<SpanExporter>(options, SpanQueue::Bounds(), ExportTimes(), metrics);
}

void OutputRouter::StopSpans() {
  if (spans_ != nullptr) spans_->Stop();
}

}  // namespace farandole
