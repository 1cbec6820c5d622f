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

// Has the database in `directory` give back the space of rows that were deleted or replaced, while no coordinator has
// it open. Errors: as above; NOT_FOUND: there is none.
absl::Status CompactRocksdbStore(const std::string& directory);

// Writes the rows of a new database, the store's own rows among them: for a backup that is restored. One thread.
class RocksdbFiller {
 public:
  // Makes the database; errors as above. FAILED_PRECONDITION: there is one.
  static absl::StatusOr<std::unique_ptr<RocksdbFiller>> Create(const std::string& directory);
  virtual ~RocksdbFiller() = default;
  // UNAVAILABLE: it cannot be written.
  virtual absl::Status Add(StoreRow row) = 0;
  // All rows are durable on return.
  virtual absl::Status Finish() = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_ROCKSDB_STORE_H_
