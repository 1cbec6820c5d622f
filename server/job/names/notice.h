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
};
using Notices = std::vector<Notice>;

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_NOTICE_H_
