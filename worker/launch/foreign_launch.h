#ifndef FARANDOLE_WORKER_LAUNCH_FOREIGN_LAUNCH_H_
#define FARANDOLE_WORKER_LAUNCH_FOREIGN_LAUNCH_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole {

// How the processes of such a launch are told from others, by the variables that they were started with.
struct LaunchedProcesses {
  // "mpirun" or "srun".
  std::string launcher;
  // The variable that has each process's number, and this one's.
  std::string number_variable;
  int number = 0;
  // Variables that together have the same values in all processes of the launch and in no other; none: there are no
  // such variables, and the launch is known by its processes' common ancestor alone.
  std::vector<std::string> common_variables;
  // The numbers of the processes on this host, ascending; empty: these variables do not say it.
  std::vector<int> here;
  // The numbers of those that form this worker's job, in the order of its launch indices.
  std::vector<int> members;
};

// Another launcher, as the environment describes it: plain `mpirun` (Open MPI, or MPICH's Hydra) or `srun`.
struct ForeignLaunch {
  // "mpirun" or "srun".
  std::string launcher;
  int rank = 0;
  int size = 1;
  // How many of them run on this host.
  int local_size = 1;
  // A directory of this user alone that all processes of the launch on this host find, and a name in it that no other
  // launch has. "" for the directory: the launcher has none, and a temporary one will do.
  std::string directory;
  std::string name;
  // The name is the same on all hosts, and no launch of this cluster will have it again.
  bool is_named_everywhere = false;
  // Where its daemons serve PMIx: their name of the launch, and the version of their library ("4.2.2rc2"); else "".
  std::string pmix_namespace;
  std::string pmix_version;
  LaunchedProcesses processes;
};

// Reads the variables that such a launcher has set for this process; nullopt: there is none. `lookup` gives a
// variable's value or null; `parent` names the process that started this one, as no later process will be named. Pure.
//   INVALID_ARGUMENT  a variable is not what such a launcher sets; it is named with its value
absl::StatusOr<std::optional<ForeignLaunch>> FindForeignLaunch(const std::function<const char*(const char*)>& lookup,
                                                               const std::string& parent);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_FOREIGN_LAUNCH_H_
