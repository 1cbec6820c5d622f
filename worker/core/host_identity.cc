#include "worker/core/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

uint64_t NamespaceNumber(const char* path) {
  struct stat found = {};
  return stat(path, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

std::string HostIdentity(const std::string& part) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return absl::StrCat(boot, ":", NamespaceNumber("/proc/self/ns/net"), ":", NamespaceNumber("/proc/self/ns/pid"), ":",
                      geteuid(), part.empty() ? "" : ":", part);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace farandole
