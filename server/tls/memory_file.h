#ifndef FARANDOLE_SERVER_TLS_MEMORY_FILE_H_
#define FARANDOLE_SERVER_TLS_MEMORY_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// A file without a place on a disk, which only this process opens, by its path. Its content is replaced in one step: a
// reader who has opened it reads the old content to its end. For a library that takes a key by a file's name. Any
// thread, one at a time. Owned by its maker.
class MemoryFile {
 public:
  // UNAVAILABLE: the system's words.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Make(absl::string_view content);
  ~MemoryFile();

  absl::Status Replace(absl::string_view content);
  const std::string& path() const { return path_; }

 private:
  explicit MemoryFile(int descriptor);

  const int descriptor_;
  const std::string path_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TLS_MEMORY_FILE_H_
