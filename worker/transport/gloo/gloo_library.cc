#include "worker/transport/gloo/gloo_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dynamic_library.h"
#include "base/version.h"

namespace farandole {
namespace {

// Beside the file that has this function.
std::string PathBeside() {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&PathBeside), &own) == 0 || own.dli_fname == nullptr) return "";
  const std::string path = own.dli_fname;
  const size_t slash = path.rfind('/');
  return absl::StrCat(slash == std::string::npos ? "" : path.substr(0, slash + 1), "libfarandole_gloo.so");
}

absl::Status CannotLoad(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the transport is to be gloo, but its library cannot be used: ", why));
}

}  // namespace

absl::StatusOr<GlooLibrary> GlooLibrary::Load() {
  const std::string path = PathBeside();
  // torch exports Gloo's symbols, too, of another version. The address sanitizer refuses a scope of its own.
  const int scope = dlsym(RTLD_DEFAULT, "__asan_init") == nullptr ? RTLD_DEEPBIND : 0;
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({path}, RTLD_NOW | scope);
  if (!library.ok()) return CannotLoad(library.status().message());
  VersionFunction version = nullptr;
  MakeFunction make = nullptr;
  absl::Status found = library->Find(kVersionName, &version);
  found.Update(library->Find(kMakeName, &make));
  if (!found.ok()) return CannotLoad(found.message());
  if (absl::string_view(version()) != kVersion) {
    return CannotLoad(absl::StrCat(path, " is of version ", version(), ", and this is ", kVersion));
  }
  return GlooLibrary(make);
}

std::unique_ptr<Transport> GlooLibrary::MakeTransport(int rank, int size, PeerPort* port, Doorbell* bell) const {
  return std::unique_ptr<Transport>(make_(rank, size, port, bell));
}

}  // namespace farandole
