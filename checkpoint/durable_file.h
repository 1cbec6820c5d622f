#ifndef FARANDOLE_CHECKPOINT_DURABLE_FILE_H_
#define FARANDOLE_CHECKPOINT_DURABLE_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// The file system's part in a checkpoint. Every error is one sentence with the path and the system's words for `errno`;
// its code is
//   NOT_FOUND           a part of the path does not exist
//   PERMISSION_DENIED   no right to it, or a read-only file system
//   RESOURCE_EXHAUSTED  disk or quota is full, or the process has no descriptor left
//   ALREADY_EXISTS      RenameWithoutReplacing: there is a file of that name
//   FAILED_PRECONDITION a part of the path is of the wrong kind (a file where a directory must be, or the reverse)
//   UNAVAILABLE         the device failed, or anything else
// Any thread; nothing is shared.

// The sentence "cannot WHAT PATH: ERRNO'S WORDS" with the code above.
absl::Status FileError(int error, absl::string_view what, absl::string_view path);

// Makes the directory and those above it that are missing, with this mode less the process's umask. The new directories
// survive a loss of power.
absl::Status MakeDirectories(const std::string& path, mode_t mode = 0777);

// The names in a directory, in no order, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& directory);

// Makes renames and removals in the directory survive a loss of power.
absl::Status SyncDirectory(const std::string& directory);

// Renames `from` to `to` in one step, if there is no `to`.
absl::Status RenameWithoutReplacing(const std::string& from, const std::string& to);
// The same for file systems that cannot do it in one call (some network file systems): the name is taken first by an
// empty file.
absl::Status ClaimAndRename(const std::string& from, const std::string& to);

// Writes a file that is there with all of `content` or not at all; replaces one of the same name. `temporary` is its
// name meanwhile, in the same directory. Durable once SyncDirectory was called for that.
absl::Status WriteFileAtomically(const std::string& path, const std::string& temporary, absl::string_view content);

struct FileDigest {
  uint64_t size_bytes = 0;
  // SHA-256, 32 bytes.
  std::string sha256;
};
// Reads the file once, in pieces of 1 MiB.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);
// Makes the written bytes survive a loss of power, then reads them.
absl::StatusOr<FileDigest> SyncAndDigestFile(const std::string& path);

// All of a file of at most `most_bytes`; RESOURCE_EXHAUSTED names both sizes.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t most_bytes);
// As ReadSmallFile, in a directory in which others may write: FAILED_PRECONDITION for a pipe, which would be waited
// for, a folder, or a device.
absl::StatusOr<std::string> ReadSmallRegularFile(const std::string& path, size_t most_bytes);

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_DURABLE_FILE_H_
