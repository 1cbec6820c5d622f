// The file beside a checkpoint, which anybody may have changed.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/check.h"
#include "checkpoint/manifest.h"

namespace {

std::string MakeDirectory() {
  std::string pattern = "/dev/shm/farandole-fuzz-XXXXXX";
  FD_CHECK(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

void Write(const std::string& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string directory = MakeDirectory();
  static const int removal = std::atexit([] {
    for (const char* name : {"/model", "/model.json", ""}) static_cast<void>(remove((directory + name).c_str()));
  });
  FD_CHECK_EQ(removal, 0);
  const std::string file = directory + "/model";
  Write(farandole::ManifestPath(file), data, size);
  Write(file, data, size / 2);
  const absl::StatusOr<farandole::Manifest> manifest = farandole::ReadManifest(farandole::ManifestPath(file));
  if (!manifest.ok()) {
    FD_CHECK(absl::IsDataLoss(manifest.status())) << manifest.status();
    return 0;
  }
  FD_CHECK(manifest->checkpoint.path() == file) << manifest->checkpoint.path();
  farandole::VerifyFile(manifest->checkpoint).IgnoreError();
  const absl::StatusOr<std::vector<farandole::Manifest>> all = farandole::ListManifests(directory);
  FD_CHECK(all.ok()) << all.status();
  FD_CHECK_EQ(all->size(), size_t{1});
  return 0;
}
