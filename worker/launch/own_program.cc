#include "worker/launch/own_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

// The directory of this library; "" if the system does not say.
std::string OwnDirectory() {
  Dl_info found = {};
  if (dladdr(reinterpret_cast<const void*>(&OwnDirectory), &found) == 0 || found.dli_fname == nullptr) return "";
  return std::filesystem::path(found.dli_fname).parent_path().string();
}

}  // namespace

std::string FindOwnProgram(const WorkerOptions& options) {
  if (!options.program.empty()) return options.program;
  const std::string own = OwnDirectory();
  // In the package, as the wheel has it, or in one directory with the library.
  std::vector<std::string> directories = {absl::StrCat(own, "/../_bin"), own};
  if (own.empty()) directories.clear();
  for (absl::string_view directory : absl::StrSplit(options.path, ':', absl::SkipEmpty())) {
    directories.emplace_back(directory);
  }
  for (const std::string& directory : directories) {
    const std::string file = absl::StrCat(directory, "/farandole");
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

}  // namespace farandole
