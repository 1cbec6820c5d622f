#ifndef FARANDOLE_SERVER_LOOP_OUTPUT_RECEIVER_H_
#define FARANDOLE_SERVER_LOOP_OUTPUT_RECEIVER_H_

#include "server/job/rules/actions.h"

namespace farandole {

// Where a job's outputs leave the coordinator. Called by the job loops; must not block. A stream or a call that is gone
// already is no error: nothing happens. LogLines do not come here.
class OutputReceiver {
 public:
  virtual ~OutputReceiver() = default;
  virtual void Deliver(Output output) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_OUTPUT_RECEIVER_H_
