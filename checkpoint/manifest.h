#ifndef FARANDOLE_CHECKPOINT_MANIFEST_H_
#define FARANDOLE_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// The JSON file beside a checkpoint: enough to verify the file without a coordinator. Whether the
// checkpoint exists is still the catalogue's word.
struct Manifest {
  std::string job;
  // Without rank and time of the commit, which only the catalogue has.
  v1::Checkpoint checkpoint;
};

// "FILE.json".
std::string ManifestPath(absl::string_view checkpoint_path);

// Writes the manifest beside `manifest.checkpoint.path()`, atomically; until it is whole it is called `temporary`.
// Errors as in durable_file.h.
absl::Status WriteManifest(const Manifest& manifest, const std::string& temporary);

// Reads one. Its checkpoint's path is the file that lies beside it now, wherever the pair was copied to.
//   NOT_FOUND  there is no such file, and others as in durable_file.h
//   DATA_LOSS  it is no manifest (the text says what is wrong with which field)
absl::StatusOr<Manifest> ReadManifest(const std::string& manifest_path);

// The manifests in a directory, by token, the newest last; leaves out files that are no manifests, and manifests whose
// checkpoint is missing. NOT_FOUND: there is no such directory, and others as in durable_file.h.
absl::StatusOr<std::vector<Manifest>> ListManifests(const std::string& directory);

// The newest (by token) with this name ("": any) and step (-1: any).
//   NOT_FOUND  there is none (the text names what was asked and the directory)
absl::StatusOr<Manifest> FindManifest(const std::string& directory, absl::string_view name, int64_t step);

// Reads the whole file and compares it with its manifest.
//   NOT_FOUND  it is gone, and others as in durable_file.h
//   DATA_LOSS  size or checksum differ; both values are named
absl::Status VerifyFile(const v1::Checkpoint& checkpoint);

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_MANIFEST_H_
