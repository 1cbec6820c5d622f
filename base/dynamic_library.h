#ifndef FARANDOLE_BASE_DYNAMIC_LIBRARY_H_
#define FARANDOLE_BASE_DYNAMIC_LIBRARY_H_

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// A library that is found at run time, and stays loaded.
class DynamicLibrary {
 public:
  // The first of the names that the process has loaded already; else the first that can be loaded. `mode` is dlopen's;
  // RTLD_LOCAL is always part of it. Empty names are skipped.
  // UNAVAILABLE: none; the text has the system's words about the last.
  static absl::StatusOr<DynamicLibrary> Open(std::initializer_list<std::string> names, int mode = RTLD_NOW);

  // Sets `*function` to what the library has under `name`. UNAVAILABLE, and null: it has none.
  template <typename Function>
  absl::Status Find(const char* name, Function* function) const {
    absl::StatusOr<void*> found = Find(name);
    *function = reinterpret_cast<Function>(found.ok() ? *found : nullptr);
    return found.status();
  }

 private:
  DynamicLibrary(std::string name, void* library) : name_(std::move(name)), library_(library) {}
  absl::StatusOr<void*> Find(const char* name) const;

  std::string name_;
  void* library_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_DYNAMIC_LIBRARY_H_
