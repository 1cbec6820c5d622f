#ifndef FARANDOLE_WEB_FILES_TAR_GZ_H_
#define FARANDOLE_WEB_FILES_TAR_GZ_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole {

// Files by name and contents, as a compressed archive in the ustar format (POSIX.1). Names have at most 100 bytes.
//   INTERNAL  zlib could not compress them
absl::StatusOr<std::string> PackTarGz(const std::vector<std::pair<std::string, std::string>>& files, absl::Time time);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_TAR_GZ_H_
