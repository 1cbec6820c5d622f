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
  }
}

}  // namespace farandole
