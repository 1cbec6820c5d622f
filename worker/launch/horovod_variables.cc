#include "worker/launch/horovod_variables.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/nearest_name.h"

namespace farandole {
namespace {

constexpr absl::string_view kPrefix = "HOROVOD_";
// The launcher reads this one; the others that have a meaning are aliases.
constexpr char kStartTimeout[] = "HOROVOD_START_TIMEOUT";
// A day: the most that a setting may be, and so as good as never.
constexpr char kNeverMs[] = "86400000";

const char kSeconds[] = "seconds";
const char kBytes[] = "bytes";
const char kNever[] = "1: never";
const char kInverse[] = "1: 0";
const char kWord[] = "as it is";
const char kLevel[] = "TRACE to FATAL";
const char kFile[] = "as it is; DYNAMIC: none yet";
const char kFlag[] = "0 or 1";

// Horovod's other variables, which have no counterpart. They are known so that they cause no warning.
constexpr absl::string_view kOthers[] = {
    // Told by its launcher.
    "HOSTNAME", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "CONTROLLER", "CPU_OPERATIONS",
    "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT", "GLOO_TIMEOUT_SECONDS", "SECRET_KEY", "ELASTIC", "START_TIMEOUT",
    // Tuning.
    "CYCLE_TIME", "CACHE_CAPACITY", "HIERARCHICAL_ALLREDUCE", "HIERARCHICAL_ALLGATHER", "TORUS_ALLREDUCE",
    "BATCH_D2D_MEMCOPIES", "NUM_NCCL_STREAMS", "DISABLE_GROUP_FUSION", "ENABLE_ASYNC_COMPLETION", "ENABLE_XLA_OPS",
    "ADASUM_MPI_CHUNK_SIZE", "THREAD_AFFINITY", "MPI_THREADS_DISABLE", "CCL_CACHE", "CCL_BGT_AFFINITY",
    "DYNAMIC_PROCESS_SETS", "AUTOTUNE", "AUTOTUNE_LOG", "AUTOTUNE_WARMUP_SAMPLES", "AUTOTUNE_STEPS_PER_SAMPLE",
    "AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
    // Observation.
    "LOG_HIDE_TIME",
    // Spark.
    "SPARK_START_TIMEOUT", "SPARK_PYTHONPATH", "SPARK_WORK_DIR", "SPARK_USE_LOCAL_RANK_GPU_INDEX",
    // Its build, whose variables container images keep.
    "WITH_TENSORFLOW", "WITH_PYTORCH", "WITH_MXNET", "WITH_MPI", "WITH_GLOO", "WITH_NVTX", "WITHOUT_TENSORFLOW",
    "WITHOUT_PYTORCH", "WITHOUT_MXNET", "WITHOUT_MPI", "WITHOUT_GLOO", "WITHOUT_NVTX", "GPU", "GPU_OPERATIONS",
    "GPU_ALLREDUCE", "GPU_ALLGATHER", "GPU_BROADCAST", "GPU_ALLTOALL", "GPU_REDUCESCATTER", "ALLOW_MIXED_GPU_IMPL",
    "CUDA_HOME", "ROCM_HOME", "NCCL_HOME", "NCCL_INCLUDE", "NCCL_LIB", "NCCL_LINK", "BUILD_CUDA_CC_LIST",
    "BUILD_ARCH_FLAGS", "CMAKE", "DEBUG", "SKIP_COMPILE", "VERSION"};

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const HorovodAlias& alias : HorovodAliases()) names.emplace_back(alias.variable);
  for (absl::string_view other : kOthers) names.push_back(absl::StrCat(kPrefix, other));
  return names;
}

absl::Status WrongValue(absl::string_view variable, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(variable, " is \"", value, "\", but must be ", wanted));
}

// The value in the words of the setting; "": as if it were not set.
absl::StatusOr<std::string> Translate(const HorovodAlias& alias, const std::string& value) {
  if (alias.unit == kWord) return value;
  if (alias.unit == kFile) return value == "DYNAMIC" ? "" : value;
  if (alias.unit == kLevel) {
    const std::string level = absl::AsciiStrToLower(value);
    for (const char* known : {"trace", "debug", "info", "warning", "error"}) {
      if (level == known) return level;
    }
    if (level == "fatal") return std::string("off");
    return WrongValue(alias.variable, value, "one of TRACE, DEBUG, INFO, WARNING, ERROR and FATAL");
  }
  int64_t number = 0;
  // A thousandth of the greatest, so that milliseconds fit.
  if (!absl::SimpleAtoi(value, &number) || number < 0 || number > INT64_MAX / 1000) {
    return WrongValue(alias.variable, value, "a whole number >= 0");
  }
  if (alias.unit == kNever) return number == 0 ? "" : kNeverMs;
  if (alias.unit == kInverse) return number == 0 ? "" : "0";
  return absl::StrCat(alias.unit == kSeconds ? number * 1000 : number);
}

absl::Status Contradiction(absl::string_view one, absl::string_view value, absl::string_view other,
                           absl::string_view other_value) {
  return absl::InvalidArgumentError(absl::StrCat(one, " is \"", value, "\" and ", other, " is \"", other_value,
                                                 "\", but both say the same; leave one out"));
}

std::map<std::string, std::string> WithoutEmptyOnes(const std::vector<std::string>& variables) {
  std::map<std::string, std::string> given;
  for (const std::string& variable : variables) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (!parts.second.empty()) given.insert(parts);
  }
  return given;
}

// Those that begin as Horovod's do, but are none.
std::vector<std::string> UnknownOnes(const std::map<std::string, std::string>& given) {
  const std::vector<std::string> known = KnownNames();
  std::vector<std::string> unknown;
  for (const auto& [name, value] : given) {
    if (absl::StartsWith(name, kPrefix) && std::find(known.begin(), known.end(), name) == known.end())
      unknown.push_back(name);
  }
  return unknown;
}

// An error only where the user would miss something: the name that was meant has a meaning here, and is not set.
absl::Status CheckSpelling(const std::map<std::string, std::string>& given) {
  std::vector<std::string> meaningful = {kStartTimeout};
  for (const HorovodAlias& alias : HorovodAliases()) meaningful.emplace_back(alias.variable);
  for (const std::string& name : UnknownOnes(given)) {
    for (const std::string& meant : meaningful) {
      if (EditDistance(name, meant) > 1 || given.count(meant) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          name, " is set to \"", given.at(name), "\", but Horovod has no such variable; did you mean ", meant, "?"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<HorovodAlias>& HorovodAliases() {
  static const auto* const aliases = new std::vector<HorovodAlias>{
      {"HOROVOD_FUSION_THRESHOLD", "FARANDOLE_FUSION_THRESHOLD_BYTES", kBytes},
      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "FARANDOLE_STALL_WARNING_MS", kSeconds},
      {"HOROVOD_STALL_CHECK_DISABLE", "FARANDOLE_STALL_WARNING_MS", kNever},
      {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "FARANDOLE_STALL_LIMIT_MS", kSeconds},
      {"HOROVOD_ELASTIC_TIMEOUT", "FARANDOLE_ELASTIC_TIMEOUT_MS", kSeconds},
      {"HOROVOD_GLOO_IFACE", "FARANDOLE_NETWORK_INTERFACES", kWord},
      {"HOROVOD_LOG_LEVEL", "FARANDOLE_LOG_LEVEL", kLevel},
      {"HOROVOD_TIMELINE", "FARANDOLE_TIMELINE", kFile},
      {"HOROVOD_TIMELINE_MARK_CYCLES", "FARANDOLE_TIMELINE_MARK_CYCLES", kFlag},
      {"HOROVOD_DISABLE_NVTX_RANGES", "FARANDOLE_NVTX", kInverse},
  };
  return *aliases;
}

absl::StatusOr<std::map<std::string, std::string>> ReadHorovodVariables(const std::vector<std::string>& variables,
                                                                        const std::set<std::string>& initial) {
  std::map<std::string, std::string> given = WithoutEmptyOnes(variables);
  if (absl::Status status = CheckSpelling(given); !status.ok()) return status;
  std::map<std::string, std::string> said;
  std::map<std::string, const HorovodAlias*> by;
  for (const HorovodAlias& alias : HorovodAliases()) {
    const auto found = given.find(alias.variable);
    if (found == given.end()) continue;
    const absl::StatusOr<std::string> value = Translate(alias, found->second);
    if (!value.ok()) return value.status();
    if (value->empty()) continue;
    const auto ours = given.find(alias.setting);
    const auto [earlier, is_first] = by.emplace(alias.setting, &alias);
    // If the check is disabled, its other settings may contradict each other.
    if (!is_first && (alias.unit == kNever || earlier->second->unit == kNever)) {
      said[alias.setting] = kNeverMs;
      continue;
    }
    // A launcher has said the one, and the program itself the other.
    const bool is_replaced = initial.count(absl::StrCat(alias.variable, "=", found->second)) == 0 &&
                             ours != given.end() && initial.count(absl::StrCat(ours->first, "=", ours->second)) > 0;
    if (ours != given.end() && ours->second != *value && !is_replaced) {
      return Contradiction(alias.variable, found->second, alias.setting, ours->second);
    }
    if (!is_first && said[alias.setting] != *value) {
      return Contradiction(earlier->second->variable, given[earlier->second->variable], alias.variable, found->second);
    }
    said[alias.setting] = *value;
  }
  return said;
}

std::string DescribeUnknownHorovodVariables(const std::vector<std::string>& variables) {
  const std::vector<std::string> unknown = UnknownOnes(WithoutEmptyOnes(variables));
  if (unknown.empty()) return "";
  return absl::StrCat(absl::StrJoin(unknown, ", "), unknown.size() == 1 ? " is" : " are",
                      " set, but without effect: Horovod has no variable of ",
                      unknown.size() == 1 ? "that name" : "these names");
}

}  // namespace farandole
