#ifndef FARANDOLE_DEPLOY_CLI_UPKEEP_STORE_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_UPKEEP_STORE_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace farandole {

// The options of `farandole store status|check|backup|restore|compact`.
struct StoreCommandOptions {
  // "": that of `farandole serve`.
  std::string state_dir;
  // XDG_STATE_HOME or ~/.local/state.
  std::string state_home;
  // A backup.
  std::string file;
  bool json = false;
};

// All write their result to `out` and what went wrong, a sentence per line, to `err`; they give the exit code: 0 if all
// is well, 1 otherwise. None needs a token: they read and write the files of the state directory.

// The rows by kind, sizes, and the coordinator that works there.
int ShowStoreStatus(const StoreCommandOptions& options, std::ostream& out, std::ostream& err);
// Compares everything with its checksum and parses each row; with a file, that backup instead.
int CheckStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err);
int BackUpStore(const StoreCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);
int RestoreStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err);
// While no coordinator works there.
int CompactStore(const StoreCommandOptions& options, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_UPKEEP_STORE_COMMAND_H_
