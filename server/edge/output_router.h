#ifndef FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_
#define FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_

#include "server/edge/call_table.h"
#include "server/edge/stream_table.h"
#include "server/loop/output_receiver.h"

namespace farandole {

// Connects the jobs' outputs with the streams and calls that wait for them. Owned by the coordinator; any thread.
class OutputRouter : public OutputReceiver {
 public:
  void Deliver(Output output) override;

  CallTable& calls() { return calls_; }
  StreamTable& streams() { return streams_; }

 private:
  CallTable calls_;
  StreamTable streams_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_OUTPUT_ROUTER_H_
