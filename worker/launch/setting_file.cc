#include "worker/launch/setting_file.h"

#include <errno.h>
#include <string.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<std::string> ReadSettingFile(const std::string& path, const char* what) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    return absl::UnauthenticatedError(absl::StrCat("cannot read the ", what, " ", path, ": ", strerror(errno)));
  return text.str();
}

}  // namespace farandole
