#ifndef FARANDOLE_DEPLOY_CLI_CHECKPOINT_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_CHECKPOINT_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/cli/coordinators/catalogue_reader.h"
#include "deploy/cli/coordinators/coordinator_source.h"

namespace farandole {

// The options of `farandole checkpoint list|verify`.
struct CheckpointOptions {
  CatalogueSource source;
  // Instead of a catalogue: checkpoints, or their manifests.
  std::vector<std::string> files;
  bool json = false;
};

// The options of `farandole checkpoint delete`.
struct DeleteCheckpointOptions {
  CoordinatorSource source;
  std::string job;
  // "": whichever has a job of this name.
  std::string tenant;
  std::string name;
  int64_t step = 0;
  bool json = false;
};

// All write their result to `out` and what went wrong, a sentence per line, to `err`; they give the exit code: 0 if
// all is well, 1 where something could not be read or is bad, 2 if the options contradict each other.

// A table of the catalogue (or with `json` an array of objects), with the state of each file in this host's file
// system, without reading it: "present", "missing", "wrong size" or "unreadable".
int ListCheckpoints(const CheckpointOptions& options, absl::Time now, std::ostream& out, std::ostream& err);

// Reads each file and compares it with its committed checksum: a line "OK PATH", "MISSING ...", "CORRUPT ..." with both
// values, or "UNREADABLE ..." for each, and a count (or with `json` an array of objects).
int VerifyCheckpoints(const CheckpointOptions& options, std::ostream& out, std::ostream& err);

// Takes a checkpoint out of the catalogue of a running coordinator, so that no program finds it any more. Its file
// stays, with its manifest: what is printed names the host's path, and how to remove both. With `json` the object that
// it was.
int DeleteCheckpoint(const DeleteCheckpointOptions& options, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_CHECKPOINT_COMMAND_H_
