#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_PRIVATE_FILE_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::launcher {

// Writes a new file that only its owner may read (0600).
//   ALREADY_EXISTS       there is one of this name
//   FAILED_PRECONDITION  it cannot be written; the system's words are in the text
absl::Status WriteNewFile(const std::string& path, absl::string_view content);
// The same in place of one of this name.
//   FAILED_PRECONDITION  it cannot be written; the text names it
absl::Status WritePrivateFile(const std::string& path, absl::string_view content);

// Removes the directory of a PrivateDirectory that another process made.
void RemovePrivateDirectory(const std::string& path);

// A new directory of this user alone (0700), with all that is in it removed at the end of the object. Movable.
class PrivateDirectory {
 public:
  // Below `parent`.
  //   FAILED_PRECONDITION  it cannot be made; the text names it
  static absl::StatusOr<PrivateDirectory> Make(const std::string& parent);
  ~PrivateDirectory();
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_PRIVATE_FILE_H_
