#ifndef FARANDOLE_SERVER_STORE_SCHEMA_H_
#define FARANDOLE_SERVER_STORE_SCHEMA_H_

#include <string>

#include "absl/status/status.h"
#include "server/store/store.h"
#include "server/store_version.h"

namespace farandole {

// Brings the store's rows up to date, before anything else reads or writes them. A start that is cut off in it does it
// again. `name`: of the store, for sentences. Blocks.
//   FAILED_PRECONDITION  a later version has written the store (both are named); nothing is changed
//   others               the store's; DATA_LOSS: a row cannot be parsed (named)
absl::Status UpdateSchema(Store* store, const std::string& name);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_SCHEMA_H_
