#include "base/dynamic_library.h"

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<DynamicLibrary> DynamicLibrary::Open(std::initializer_list<std::string> names, int mode) {
  for (const std::string& name : names) {
    void* library = name.empty() ? nullptr : dlopen(name.c_str(), mode | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != nullptr) return DynamicLibrary(name, library);
  }
  std::string why = "no name was given";
  for (const std::string& name : names) {
    if (name.empty()) continue;
    void* library = dlopen(name.c_str(), mode | RTLD_LOCAL);
    if (library != nullptr) return DynamicLibrary(name, library);
    why = dlerror();
  }
  return absl::UnavailableError(why);
}

absl::StatusOr<void*> DynamicLibrary::Find(const char* name) const {
  void* found = dlsym(library_, name);
  if (found == nullptr) return absl::UnavailableError(absl::StrCat(name_, " has no ", name));
  return found;
}

}  // namespace farandole
