#ifndef FARANDOLE_SERVER_JOB_POST_H_
#define FARANDOLE_SERVER_JOB_POST_H_

#include <cstdint>
#include <vector>

#include "farandole/v1/worker.pb.h"

namespace farandole {

// One message to some ranks of the running epoch, in their order.
struct Post {
  std::vector<uint32_t> ranks;
  v1::CoordinatorMessage message;
};
using Posts = std::vector<Post>;

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_POST_H_
