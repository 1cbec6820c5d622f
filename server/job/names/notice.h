#ifndef FARANDOLE_SERVER_JOB_NAMES_NOTICE_H_
#define FARANDOLE_SERVER_JOB_NAMES_NOTICE_H_

#include <cstdint>
#include <vector>

#include "farandole/v1/worker.pb.h"

namespace farandole {

// One message to some ranks of the running epoch, in their order.
struct Notice {
  std::vector<uint32_t> ranks;
  v1::CoordinatorMessage message;
  // It refuses what the rank has said. A rank that says it again, as it has not heard the answer, hears the same.
  bool is_refusal = false;
};
using Notices = std::vector<Notice>;

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_NOTICE_H_
