// Configuration files, and the keys of long YAML documents.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "deploy/cli/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("config", MFD_CLOEXEC);
  FD_CHECK_GE(file, 0);
  FD_CHECK_EQ(write(file, data, size), static_cast<ssize_t>(size));
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  static_cast<void>(farandole::ReadSectionedFile(path));
  const absl::StatusOr<std::vector<farandole::ConfigEntry>> entries = farandole::ReadConfigFile(path);
  if (entries.ok()) {
    for (const farandole::ConfigEntry& entry : *entries) FD_CHECK_GT(entry.line, 0);
  } else {
    FD_CHECK(!entries.status().message().empty());
  }
  close(file);
  return 0;
}
