#ifndef FARANDOLE_SERVER_STORE_OFFLINE_READER_H_
#define FARANDOLE_SERVER_STORE_OFFLINE_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"

namespace farandole {

// The rows of the RocksDB store in `directory` whose key starts with `prefix`, in the order of the keys, as they are
// durable at some moment of the call. Writes nothing and takes no lock: it may be called while a coordinator has the
// store open, and after one was killed. Blocks on the disk; any thread.
//   NOT_FOUND          there is no store in the directory
//   PERMISSION_DENIED  its files cannot be read
//   DATA_LOSS          it is damaged (RocksDB's words)
//   UNAVAILABLE        it cannot be read for another reason (RocksDB's words)
absl::StatusOr<std::vector<StoreRow>> ReadRowsOffline(const std::string& directory, absl::string_view prefix);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_OFFLINE_READER_H_
