#include "deploy/launcher/output/output_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/foreign_entry.h"

namespace farandole::launcher {

absl::Status MakeDirectories(const std::string& path, unsigned mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat status {};
    if (mkdir(part.c_str(), mode) != 0) {
      const int error = errno;
      const bool is_directory = stat(part.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
      if (!is_directory) {
        return absl::FailedPreconditionError(
            absl::StrCat("cannot make the directory ", part, ": ", strerror(error == EEXIST ? ENOTDIR : error)));
      }
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

namespace {

absl::Status CheckIsOwn(const std::string& path) {
  const absl::Status status = CheckOwner(path);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", status.message()));
}

}  // namespace

absl::Status CopyToDirectory(const std::string& directory, int worker, int workers, WorkerOutput* out,
                             WorkerOutput* err) {
  const int width = static_cast<int>(absl::StrCat(workers - 1).size());
  const std::string path = absl::StrCat(directory, "/rank.", absl::StrFormat("%0*d", width, worker));
  absl::Status status = MakeDirectories(path, 0777);
  for (const char* entry : {"", "/stdout", "/stderr"}) {
    if (status.ok()) status = CheckIsOwn(path + entry);
  }
  if (status.ok()) status = out->CopyTo(absl::StrCat(path, "/stdout"));
  if (status.ok()) status = err->CopyTo(absl::StrCat(path, "/stderr"));
  return status;
}

}  // namespace farandole::launcher
