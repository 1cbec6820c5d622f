#ifndef FARANDOLE_WORKER_DEVICE_DYNAMIC_LIBRARY_H_
#define FARANDOLE_WORKER_DEVICE_DYNAMIC_LIBRARY_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// A library that is found at run time, and stays loaded.
class DynamicLibrary {
 public:
  // That of the first of the names which the process has loaded already; else that of the first that can be loaded.
  // UNAVAILABLE: none; the text has the system's words about the last.
  static absl::StatusOr<DynamicLibrary> Open(std::initializer_list<std::string> names);

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

#endif  // FARANDOLE_WORKER_DEVICE_DYNAMIC_LIBRARY_H_
