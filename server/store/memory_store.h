#ifndef FARANDOLE_SERVER_STORE_MEMORY_STORE_H_
#define FARANDOLE_SERVER_STORE_MEMORY_STORE_H_

#include <memory>

#include "server/store/store.h"

namespace farandole {

// A store whose rows end with it: for tests, for the simulator, and for a coordinator without a state directory.
// Same semantics and same thread as the durable store.
std::unique_ptr<Store> MakeMemoryStore();

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_MEMORY_STORE_H_
