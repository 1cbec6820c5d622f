#ifndef FARANDOLE_SERVER_STORE_ROCKSDB_STORE_H_
#define FARANDOLE_SERVER_STORE_ROCKSDB_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace farandole {

// Opens (or makes) a RocksDB database in `directory`, whose parent exists, as a durable store: commits completed with
// OK survive kill -9 and a loss of power.
//   FAILED_PRECONDITION  another coordinator holds the directory (it is named, with its process id where that is known)
//   DATA_LOSS            the database is damaged (RocksDB's words)
//   UNAVAILABLE          it cannot be opened, e.g. a full disk (RocksDB's words)
absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& directory);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_ROCKSDB_STORE_H_
