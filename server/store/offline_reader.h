#ifndef FARANDOLE_SERVER_STORE_OFFLINE_READER_H_
#define FARANDOLE_SERVER_STORE_OFFLINE_READER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"

namespace farandole {

// The RocksDB store in a directory, as it was durable at one moment. Writes nothing and takes no lock: it may be opened
// while a coordinator has the store open, and after one was killed. Blocks on the disk; any thread, one at a time.
class OfflineStore {
 public:
  // How the end of the write-ahead log is read. A loss of power may leave the beginning of a write there that nobody
  // was told was done; damage near the end may look the same.
  enum class LogEnd { kMayBeTorn, kMustBeWhole };

  //   NOT_FOUND          there is no store in the directory
  //   PERMISSION_DENIED  its files cannot be read
  //   DATA_LOSS          it is damaged (RocksDB's words)
  //   UNAVAILABLE        it cannot be read for another reason (RocksDB's words)
  static absl::StatusOr<std::unique_ptr<OfflineStore>> Open(const std::string& directory,
                                                            LogEnd log_end = LogEnd::kMayBeTorn);
  virtual ~OfflineStore() = default;

  // Calls `visit` for each row whose key starts with `prefix`, in the order of the keys, until it fails. Errors: that
  // of `visit`; DATA_LOSS, UNAVAILABLE: as Open's.
  virtual absl::Status ForEach(absl::string_view prefix, const std::function<absl::Status(const StoreRow&)>& visit) = 0;
  // Reads all tables and compares each block with its checksum. DATA_LOSS: one differs (RocksDB's words), or there is a
  // table that the store does not name, with rows that it lacks; such tables are looked at only while no coordinator
  // has the store open, since one makes new tables.
  virtual absl::Status VerifyTables() = 0;
};

// The process that has the store open, by its lock; 0: none, or the kernel does not say. Not for that process itself:
// it would lose the lock (fcntl(2)).
pid_t StoreHolder(const std::string& directory);

// The rows of such a store whose key starts with `prefix`, in the order of the keys. Errors: as OfflineStore's.
absl::StatusOr<std::vector<StoreRow>> ReadRowsOffline(const std::string& directory, absl::string_view prefix);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_OFFLINE_READER_H_
