#ifndef FARANDOLE_SERVER_BACKUP_BACKUP_FILE_H_
#define FARANDOLE_SERVER_BACKUP_BACKUP_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "farandole/v1/store.pb.h"

namespace farandole {

// A backup is one file: a line that names the format, parts (BackupPart of store.proto, each behind its size as four
// bytes, the lowest first), and the SHA-256 of all of that (32 bytes).

// Most bytes of a part; above the size of the greatest row.
inline constexpr size_t kMostPartBytes = 16 << 20;

// Writes a backup. Its file is there with all of it or not at all, for its owner only (0600). Meanwhile its name ends
// in ".partial", which stays after a kill, and is replaced by the next backup. One thread.
class BackupWriter {
 public:
  // ALREADY_EXISTS: there is a file of this name. UNAVAILABLE: it cannot be written (the system's words).
  static absl::StatusOr<std::unique_ptr<BackupWriter>> Create(const std::string& path);
  ~BackupWriter();
  BackupWriter(const BackupWriter&) = delete;

  // INVALID_ARGUMENT: the part is larger than kMostPartBytes. UNAVAILABLE: it cannot be written, e.g. a full disk.
  absl::Status Add(const v1::BackupPart& part);
  // Ends the file, which survives a loss of power from then on. Its SHA-256, of all its bytes but the last 32.
  absl::StatusOr<std::string> Finish();

 private:
  explicit BackupWriter(std::string path) : path_(std::move(path)) {}
  std::string partial() const { return path_ + ".partial"; }
  absl::Status Write(absl::string_view bytes);
  absl::Status Flush();

  const std::string path_;
  int file_ = -1;
  RunningSha256 sha256_;
  std::string buffer_;
};

// The content of a backup.
struct BackupFacts {
  v1::BackupHead head;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  // 32 bytes.
  std::string sha256;
};

// Reads a backup, and calls `visit` for its rows and files in their order; null: only checks it. Rows
// are proven only when the call has gone well: check a backup before its rows are used.
//   NOT_FOUND            there is no such file
//   UNAVAILABLE          it cannot be read (the system's words)
//   FAILED_PRECONDITION  it is no backup, or one of a later format
//   DATA_LOSS            it is cut off or damaged
//   others               that of `visit`
absl::StatusOr<BackupFacts> ReadBackup(const std::string& path,
                                       const std::function<absl::Status(const v1::BackupPart&)>& visit);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BACKUP_BACKUP_FILE_H_
