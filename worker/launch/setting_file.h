#ifndef FARANDOLE_WORKER_LAUNCH_SETTING_FILE_H_
#define FARANDOLE_WORKER_LAUNCH_SETTING_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace farandole {

// The bytes of a file that a setting names.
//   UNAUTHENTICATED: it cannot be read; says `what` it is ("token file"), and why
absl::StatusOr<std::string> ReadSettingFile(const std::string& path, const char* what);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_SETTING_FILE_H_
