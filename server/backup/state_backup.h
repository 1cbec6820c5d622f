#ifndef FARANDOLE_SERVER_BACKUP_STATE_BACKUP_H_
#define FARANDOLE_SERVER_BACKUP_STATE_BACKUP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/backup/backup_file.h"

namespace farandole {

// The upkeep of a coordinator's state directory, by another process. Everything blocks on the disk; any thread.

// The rows of one kind ("job"), with the bytes of their keys and values.
struct RowsOfKind {
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

struct StateFacts {
  // SchemaRecord.version; 0: there is none.
  uint32_t schema = 0;
  // By kind, the first part of the keys.
  std::map<std::string, RowsOfKind> kinds;
  // All files of the store, and the space that is left on their disk for the user.
  uint64_t disk_bytes = 0;
  uint64_t free_bytes = 0;
  // The process that has the store open; 0: none.
  int64_t holder = 0;
};

// Looks at the state directory, also while a coordinator works there. Errors: as OfflineStore's.
absl::StatusOr<StateFacts> DescribeState(const std::string& state_dir);

// The result of a check.
struct StateVerdict {
  uint64_t rows = 0;
  // A sentence for each row that is damaged; the first 100.
  std::vector<std::string> broken;
};

// Reads all that the store has, compares it with its checksums, and parses each row. While a coordinator works there,
// what it has written by then is checked. Errors: as OfflineStore's, DATA_LOSS among them: a file is damaged.
absl::StatusOr<StateVerdict> CheckState(const std::string& state_dir);

// Writes a backup of the rows, as they are durable at one moment, and of the files `token` and `key`, also while a
// coordinator works there. The audit log is not in it: its files only grow, and can be copied.
// Errors: as CheckState's and BackupWriter's.
absl::StatusOr<BackupFacts> BackUpState(const std::string& state_dir, const std::string& file, absl::Time now);

// Makes a state directory of a backup: of one that is new, or empty. One that was cut off is begun anew by the next; a
// coordinator does not start there meanwhile.
//   FAILED_PRECONDITION  the directory is not empty, or not private; or a later version wrote the backup
//   others               as ReadBackup's, and the system's
absl::StatusOr<BackupFacts> RestoreState(const std::string& file, const std::string& state_dir);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BACKUP_STATE_BACKUP_H_
