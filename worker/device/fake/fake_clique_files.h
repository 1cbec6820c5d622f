#ifndef FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_FILES_H_
#define FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// Messages between ranks of one unique id in different processes: files in a directory, each written by one rank, whole
// from the moment when it is there.
class FakeCliqueFiles {
 public:
  FakeCliqueFiles(const std::string& directory, uint64_t id);

  void Put(absl::string_view kind, uint64_t number, int from, const std::string& content);
  // Nothing: it is not there yet.
  std::optional<std::string> Get(absl::string_view kind, uint64_t number, int from) const;
  void Remove(absl::string_view kind, uint64_t number, int from);

 private:
  std::string PathOf(absl::string_view kind, uint64_t number, int from) const;

  const std::string prefix_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_FILES_H_
