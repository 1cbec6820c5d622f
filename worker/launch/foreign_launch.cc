#include "worker/launch/foreign_launch.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

using Lookup = std::function<const char*(const char*)>;

constexpr int kMaxSize = 65536;

// Reads variables that a launcher must have set; the first that is wrong sticks.
class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  bool Has(const char* variable) const {
    const char* value = lookup_(variable);
    return value != nullptr && *value != '\0';
  }
  // The value of the first of them that is set; "" for none.
  std::string Text(const char* variable, const char* other = nullptr) const {
    if (Has(variable)) return lookup_(variable);
    return other != nullptr && Has(other) ? lookup_(other) : "";
  }
  int Number(const char* variable, int least, int most) {
    int value = 0;
    if (absl::SimpleAtoi(Text(variable), &value) && value >= least && value <= most) return value;
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          variable, " is \"", Text(variable), "\", but a launcher sets a ", "number from ", least, " to ", most));
    }
    return least;
  }
  const absl::Status& status() const { return status_; }

 private:
  const Lookup& lookup_;
  absl::Status status_;
};

// "0,3" of srun; none where it is not that.
std::vector<int> ParseNumbers(const std::string& text, int size) {
  std::vector<int> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 0 || number >= size) return {};
    numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// A file's name made of the launcher's name of a job.
std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.'; },
      '-');
  return text;
}

}  // namespace

absl::StatusOr<std::optional<ForeignLaunch>> FindForeignLaunch(const Lookup& lookup, const std::string& parent) {
  Reader reader(lookup);
  ForeignLaunch launch;
  if (reader.Has("OMPI_COMM_WORLD_RANK") && reader.Has("OMPI_COMM_WORLD_SIZE")) {
    launch.launcher = "mpirun";
    launch.size = reader.Number("OMPI_COMM_WORLD_SIZE", 1, kMaxSize);
    launch.rank = reader.Number("OMPI_COMM_WORLD_RANK", 0, launch.size - 1);
    launch.local_size = reader.Number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, launch.size);
    launch.directory = reader.Text("PMIX_SERVER_TMPDIR", "OMPI_MCA_orte_jobfam_session_dir");
    // If the session has no directory, its processes have one parent, the daemon.
    launch.processes.number_variable = "OMPI_COMM_WORLD_RANK";
    if (reader.Has("PMIX_NAMESPACE")) launch.processes.common_variables = {"PMIX_NAMESPACE"};
    launch.name = absl::StrCat("mpirun.", Plain(reader.Has("PMIX_NAMESPACE") ? reader.Text("PMIX_NAMESPACE") : parent));
  } else if (reader.Has("MPI_LOCALNRANKS") && reader.Has("PMI_RANK")) {
    launch.launcher = "mpirun";
    launch.size = reader.Number("PMI_SIZE", 1, kMaxSize);
    launch.rank = reader.Number("PMI_RANK", 0, launch.size - 1);
    launch.local_size = reader.Number("MPI_LOCALNRANKS", 1, launch.size);
    launch.processes.number_variable = "PMI_RANK";
    launch.name = absl::StrCat("hydra.", Plain(parent));
  } else if (reader.Has("SLURM_STEP_ID") && reader.Has("SLURM_PROCID") && reader.Has("SLURM_JOB_ID")) {
    // A batch script has these variables but no step, and is no worker.
    const bool has_step = reader.Has("SLURM_STEP_NUM_TASKS");
    launch.launcher = "srun";
    launch.size = reader.Number(has_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, kMaxSize);
    launch.rank = reader.Number("SLURM_PROCID", 0, launch.size - 1);
    const int nodes =
        reader.Number(reader.Has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES", 1, launch.size);
    // The text that says how many are here has a form of its own; it only matters whether all are.
    launch.local_size = nodes == 1 ? launch.size : launch.size - 1;
    launch.is_named_everywhere = true;
    launch.processes.number_variable = "SLURM_PROCID";
    launch.processes.common_variables = {"SLURM_JOB_ID", "SLURM_STEP_ID"};
    launch.processes.here = ParseNumbers(reader.Text("SLURM_GTIDS"), launch.size);
    launch.name = absl::StrCat("srun.", Plain(reader.Text("SLURM_CLUSTER_NAME")), ".",
                               Plain(reader.Text("SLURM_JOB_ID")), ".", Plain(reader.Text("SLURM_STEP_ID")), ".",
                               Plain(reader.Has("SLURM_RESTART_COUNT") ? reader.Text("SLURM_RESTART_COUNT") : "0"));
  } else {
    return std::nullopt;
  }
  if (!reader.status().ok()) return reader.status();
  launch.processes.launcher = launch.launcher;
  launch.processes.number = launch.rank;
  launch.processes.members.resize(launch.size);
  std::iota(launch.processes.members.begin(), launch.processes.members.end(), 0);
  if (launch.local_size == launch.size) launch.processes.here = launch.processes.members;
  if (reader.Has("PMIX_NAMESPACE") && reader.Has("PMIX_RANK")) {
    launch.pmix_namespace = reader.Text("PMIX_NAMESPACE");
    launch.pmix_version = reader.Text("PMIX_VERSION");
  }
  return launch;
}

}  // namespace farandole
