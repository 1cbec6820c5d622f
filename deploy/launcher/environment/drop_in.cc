#include "deploy/launcher/environment/drop_in.h"

#include <glob.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace farandole::launcher {
namespace {

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::vector<std::string> Match(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

// Folders in which the package `farandole` may lie.
std::vector<std::string> FindLibraries(const std::string& prefix) {
  std::vector<std::string> libraries;
  for (const char* kind : {"site-packages", "dist-packages"}) {
    for (const std::string& folder : Match(absl::StrCat(prefix, "/lib*/python3*/", kind))) {
      libraries.push_back(folder);
      std::ifstream followed(absl::StrCat(folder, "/farandole.pth"));
      for (std::string line; std::getline(followed, line);) {
        line = std::string(absl::StripAsciiWhitespace(line));
        if (!line.empty() && line[0] == '/') libraries.push_back(line);
      }
    }
  }
  return libraries;
}

}  // namespace

absl::StatusOr<std::string> FindDropIn(const std::string& program) {
  const std::string folder = ParentOf(program);
  std::vector<std::string> packages = {ParentOf(folder)};
  for (const std::string& library : FindLibraries(ParentOf(folder))) {
    packages.push_back(absl::StrCat(library, "/farandole"));
  }
  for (const std::string& package : packages) {
    std::string found = absl::StrCat(package, "/_dropin");
    if (access(absl::StrCat(found, "/horovod/__init__.py").c_str(), R_OK) == 0) return found;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("Horovod's names are part of the Python package farandole, which is not installed beside ", program,
                   ": there is no ", ParentOf(folder), "/lib/python3*/site-packages/farandole/_dropin"));
}

}  // namespace farandole::launcher
