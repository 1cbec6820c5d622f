#include "sdk/tensorflow/number.h"

#include "sdk/adapter/worker_library.h"

namespace farandole::tensorflow {

int ReadNumber(int64_t which, int32_t group) {
  if (!adapter::HasWorkerLibrary()) return -FARANDOLE_FAILED_PRECONDITION;
  const adapter::WorkerLibrary& worker = adapter::Worker();
  switch (which) {
    case kRank:
      return worker.rank();
    case kSize:
      return worker.size();
    case kLocalRank:
      return worker.local_rank();
    case kLocalSize:
      return worker.local_size();
    case kCrossRank:
      return worker.cross_rank();
    case kCrossSize:
      return worker.cross_size();
    case kEpoch:
      return static_cast<int>(worker.epoch());
    case kGroupSize: {
      const int size = worker.group_size(group);
      return size < 0 ? size + 1 : size;
    }
    case kGroupRank: {
      const int position = worker.group_rank(group);
      return position < 0 ? position + 1 : position;
    }
    default: {
      const int position = worker.group_rank(group);
      return position < -1 ? position + 1 : (position >= 0 ? 1 : 0);
    }
  }
}

const char* NumberError() {
  return adapter::HasWorkerLibrary() ? adapter::Worker().last_error() : "farandole.tensorflow is not imported";
}

}  // namespace farandole::tensorflow
