#include "deploy/launcher/environment/horovod_options.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/version.h"

namespace farandole::launcher {
namespace {

constexpr char kStallWarning[] = "FARANDOLE_STALL_WARNING_MS";
// The setting's maximum, a day: as good as never.
constexpr char kNeverMs[] = "86400000";
constexpr char kGroup[] = "Horovod's";

constexpr char kNoCycle[] = "a collective starts as soon as all ranks are ready; there are no cycles";
constexpr char kNoCache[] = "every name is negotiated once and kept";
constexpr char kNoChoice[] = "the schedule follows from size and hosts";
constexpr char kNoAutotune[] = "there is nothing to tune";
constexpr char kNoNccl[] = "collectives between GPUs have one stream";
constexpr char kNoMpi[] = "no MPI is used";
constexpr char kNoJsrun[] = "workers are started here or by ssh";
constexpr char kNoBinding[] = "workers are not bound to cores";
constexpr char kNoAffinity[] = "the thread that waits for a result does the work, on its own core";
constexpr char kNoGlooLimit[] = "peers that die or fall silent are found by their hosts' reports";
constexpr char kNoStamp[] = "how the library writes its lines is set by FARANDOLE_LOG_FORMAT";

// A number for the workers: variable = number * factor.
struct NumberRow {
  const char* name;
  const char* variable;
  int64_t factor;
  const char* meaning;
};
constexpr NumberRow kNumbers[] = {
    {"--fusion-threshold-mb", "FARANDOLE_FUSION_THRESHOLD_BYTES", 1 << 20, "Most MiB of a fused batch"},
    {"--stall-check-warning-time-seconds", kStallWarning, 1000, "Seconds after which a tensor counts as stalled"},
    {"--stall-check-shutdown-time-seconds", "FARANDOLE_STALL_LIMIT_MS", 1000,
     "Seconds after which a stalled tensor ends the job; 0: never"},
};

// Accepted, and of no effect.
struct IdleRow {
  const char* name;
  const char* reason;
};
constexpr IdleRow kIdleNumbers[] = {
    {"--cycle-time-ms", kNoCycle},
    {"--cache-capacity", kNoCache},
    {"--autotune-warmup-samples", kNoAutotune},
    {"--autotune-steps-per-sample", kNoAutotune},
    {"--autotune-bayes-opt-max-samples", kNoAutotune},
    {"--autotune-gaussian-process-noise", kNoAutotune},
    {"--num-nccl-streams", kNoNccl},
    {"--thread-affinity", kNoAffinity},
    {"--gloo-timeout-seconds", kNoGlooLimit},
};
constexpr IdleRow kIdleTexts[] = {
    {"--autotune-log-file", kNoAutotune}, {"--mpi-args", kNoMpi}, {"--binding-args", kNoBinding}};
constexpr IdleRow kIdleFlags[] = {
    {"--hierarchical-allreduce", kNoChoice},
    {"--hierarchical-allgather", kNoChoice},
    {"--torus-allreduce", kNoChoice},
    {"--autotune", kNoAutotune},
    {"--mpi-threads-disable", kNoMpi},
    {"--log-with-timestamp", kNoStamp},
    {"--log-without-timestamp", kNoStamp},
    {"--log-hide-timestamp", kNoStamp},
    {"--no-log-hide-timestamp", kNoStamp},
    {"--mpi", kNoMpi},
    {"--jsrun", kNoJsrun},
};
// They ask for properties that hold anyway.
constexpr const char* kGranted[] = {"--no-hierarchical-allreduce",
                                    "--no-hierarchical-allgather",
                                    "--no-torus-allreduce",
                                    "--no-autotune",
                                    "--no-timeline-mark-cycles",
                                    "--no-mpi-threads-disable",
                                    "--stall-check",
                                    "--disable-cache",
                                    "--tcp",
                                    "--gloo"};
// They exclude each other.
constexpr const char* kOpposites[][2] = {{"--hierarchical-allreduce", "--no-hierarchical-allreduce"},
                                         {"--hierarchical-allgather", "--no-hierarchical-allgather"},
                                         {"--torus-allreduce", "--no-torus-allreduce"},
                                         {"--autotune", "--no-autotune"},
                                         {"--timeline-mark-cycles", "--no-timeline-mark-cycles"},
                                         {"--mpi-threads-disable", "--no-mpi-threads-disable"},
                                         {"--stall-check", "--no-stall-check"},
                                         {"--log-with-timestamp", "--log-without-timestamp"},
                                         {"--gloo", "--mpi"},
                                         {"--gloo", "--jsrun"},
                                         {"--mpi", "--jsrun"}};
// A setting of the file, and the option that it stands for; of flags, the one for true and that for false.
struct SettingRow {
  const char* key;
  const char* option;
  const char* if_false;
};
constexpr SettingRow kSettings[] = {
    {"params.fusion_threshold_mb", "--fusion-threshold-mb", nullptr},
    {"params.cycle_time_ms", "--cycle-time-ms", nullptr},
    {"params.cache_capacity", "--cache-capacity", nullptr},
    {"params.hierarchical_allreduce", "--hierarchical-allreduce", "--no-hierarchical-allreduce"},
    {"params.hierarchical_allgather", "--hierarchical-allgather", "--no-hierarchical-allgather"},
    {"params.torus_allreduce", "--torus-allreduce", "--no-torus-allreduce"},
    {"autotune.enabled", "--autotune", "--no-autotune"},
    {"autotune.log_file", "--autotune-log-file", nullptr},
    {"autotune.warmup_samples", "--autotune-warmup-samples", nullptr},
    {"autotune.steps_per_sample", "--autotune-steps-per-sample", nullptr},
    {"autotune.bayes_opt_max_samples", "--autotune-bayes-opt-max-samples", nullptr},
    {"autotune.gaussian_process_noise", "--autotune-gaussian-process-noise", nullptr},
    {"timeline.filename", "--timeline-filename", nullptr},
    {"timeline.mark_cycles", "--timeline-mark-cycles", "--no-timeline-mark-cycles"},
    {"stall_check.enabled", "--stall-check", "--no-stall-check"},
    {"stall_check.warning_time_seconds", "--stall-check-warning-time-seconds", nullptr},
    {"stall_check.shutdown_time_seconds", "--stall-check-shutdown-time-seconds", nullptr},
    // Ours.
    {"encrypt", "--encrypt", "--no-encrypt"},
    {"library_options.mpi_threads_disable", "--mpi-threads-disable", "--no-mpi-threads-disable"},
    {"library_options.num_nccl_streams", "--num-nccl-streams", nullptr},
    {"library_options.thread_affinity", "--thread-affinity", nullptr},
    {"library_options.gloo_timeout_seconds", "--gloo-timeout-seconds", nullptr},
    {"logging.level", "--log-level", nullptr},
    {"logging.with_timestamp", "--log-with-timestamp", "--log-without-timestamp"},
};

void AddIdle(CLI::App* run, HorovodOptions* options) {
  const auto note = [options](const IdleRow& row) { options->without_effect.emplace_back(row.name, row.reason); };
  for (const IdleRow& row : kIdleNumbers) {
    run->add_option_function<double>(
           row.name, [note, row](double) { note(row); }, absl::StrCat("No effect: ", row.reason))
        ->check(CLI::NonNegativeNumber)
        ->group(kGroup);
  }
  for (const IdleRow& row : kIdleTexts) {
    run->add_option_function<std::string>(
           row.name, [note, row](const std::string&) { note(row); }, absl::StrCat("No effect: ", row.reason))
        ->group(kGroup);
  }
  for (const IdleRow& row : kIdleFlags) {
    run->add_flag_callback(
           row.name, [note, row] { note(row); }, absl::StrCat("No effect: ", row.reason))
        ->group(kGroup);
  }
  for (const char* name : kGranted) {
    run->add_flag_callback(
           name, [] {}, "Accepted; Farandole always behaves like this")
        ->group(kGroup);
  }
}

void AddSettings(CLI::App* run, HorovodOptions* options) {
  for (const NumberRow& row : kNumbers) {
    run->add_option_function<double>(
           row.name,
           [options, row](double value) {
             std::string& variable = options->variables[row.variable];
             // --no-stall-check counts, whichever comes first.
             if (variable != kNeverMs) variable = absl::StrCat(std::llround(value * static_cast<double>(row.factor)));
           },
           row.meaning)
        ->check(CLI::Range(0.0, 1e9))
        ->group(kGroup);
  }
  run->add_flag_callback(
         "--no-stall-check", [options] { options->variables[kStallWarning] = kNeverMs; },
         "Stalled tensors are not reported")
      ->group(kGroup);
  run->add_option_function<std::string>(
         "--timeline-filename", [options](const std::string& file) { options->variables["FARANDOLE_TIMELINE"] = file; },
         "File in which rank 0 records what tensors wait for; the others write beside it")
      ->type_name("FILE")
      ->group(kGroup);
  run->add_flag_callback(
         "--timeline-mark-cycles", [options] { options->variables["FARANDOLE_TIMELINE_MARK_CYCLES"] = "1"; },
         "The beginning of each batch is marked in the timeline")
      ->group(kGroup);
  run->add_option_function<std::vector<std::string>>(
         "--network-interfaces,--network-interface",
         [options](const std::vector<std::string>& names) {
           options->variables["FARANDOLE_NETWORK_INTERFACES"] = absl::StrJoin(names, ",");
         },
         "Interfaces on which workers of other hosts reach those of this one, with commas between them")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME,...")
      ->group(kGroup);
  run->add_option_function<std::string>(
         "--log-level",
         [options](const std::string& level) {
           const std::string lower = absl::AsciiStrToLower(level);
           options->variables["FARANDOLE_LOG_LEVEL"] = lower == "fatal" ? "off" : lower;
         },
         "Least level of the library's lines on stderr: TRACE|DEBUG|INFO|WARNING|ERROR|FATAL")
      ->check(CLI::IsMember({"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"}, CLI::ignore_case))
      ->group(kGroup);
}

absl::Status WrongSetting(const std::string& file, const HorovodSetting& setting, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", setting.line, ": ", setting.key, ": ", what));
}

// Gives an option a value as if it had been typed.
absl::Status Give(CLI::Option* option, const std::string& value) {
  // CLI11 throws.
  try {
    option->add_result(value);
    option->run_callback();
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

absl::Status ApplySetting(CLI::App* run, const SettingRow& row, const std::string& value) {
  if (run->get_option(row.option)->count() > 0) return absl::OkStatus();
  if (row.if_false == nullptr) return Give(run->get_option(row.option), value);
  if (run->get_option(row.if_false)->count() > 0) return absl::OkStatus();
  const std::string word = absl::AsciiStrToLower(value);
  bool is_on = false;
  if (!absl::SimpleAtob(word, &is_on)) return absl::InvalidArgumentError(absl::StrCat(value, " is not true or false"));
  return Give(run->get_option(is_on ? row.option : row.if_false), "true");
}

absl::Status ChooseController(CLI::App* run, const std::string& controller) {
  if (controller != "gloo" && controller != "mpi" && controller != "jsrun") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no controller ", controller, "; there are gloo, mpi and jsrun"));
  }
  for (const char* given : {"--gloo", "--mpi", "--jsrun"}) {
    if (run->get_option(given)->count() > 0) return absl::OkStatus();
  }
  return Give(run->get_option(absl::StrCat("--", controller)), "true");
}

}  // namespace

void AddHorovodOptions(CLI::App* run, HorovodOptions* options) {
  run->add_flag("--horovod", options->drop_in,
                "Programs find Farandole by Horovod's names: `import horovod.torch`; nothing is installed")
      ->group(kGroup);
  run->add_flag("--check-build,--cb", options->check_build,
                "Show which frameworks, controllers and operations this build has; -cb is the same")
      ->group(kGroup);
  run->add_flag("--prefix-output-with-timestamp,--prefix-timestamp", options->prefix_time,
                "Each line of the workers' output begins with the time")
      ->group(kGroup);
  run->add_option("--config-file", options->config_file,
                  "YAML with Horovod's settings; the command line goes before it")
      ->type_name("FILE")
      ->group(kGroup);
  AddSettings(run, options);
  AddIdle(run, options);
  for (const auto& pair : kOpposites) run->get_option(pair[0])->excludes(run->get_option(pair[1]));
}

absl::Status ApplyHorovodSettings(CLI::App* run, const std::string& file, const std::vector<HorovodSetting>& settings) {
  std::vector<std::string> known = {"controller"};
  for (const SettingRow& row : kSettings) known.emplace_back(row.key);
  for (const HorovodSetting& setting : settings) {
    if (setting.key == "controller") {
      const absl::Status chosen = ChooseController(run, absl::AsciiStrToLower(setting.value));
      if (!chosen.ok()) return WrongSetting(file, setting, std::string(chosen.message()));
      continue;
    }
    const SettingRow* found = nullptr;
    for (const SettingRow& row : kSettings) {
      if (setting.key == row.key) found = &row;
    }
    if (found == nullptr) {
      const std::string nearest = NearestName(setting.key, known);
      return WrongSetting(file, setting,
                          absl::StrCat("there is no such setting",
                                       nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    const absl::Status applied = ApplySetting(run, *found, setting.value);
    if (!applied.ok()) return WrongSetting(file, setting, std::string(applied.message()));
  }
  return absl::OkStatus();
}

std::string DescribeWithoutEffect(const HorovodOptions& options) {
  if (options.without_effect.empty()) return "";
  return absl::StrCat("without effect here: ",
                      absl::StrJoin(options.without_effect, ", ", [](std::string* out, const auto& each) {
                        absl::StrAppend(out, each.first, " (", each.second, ")");
                      }));
}

std::string DescribeBuild(const std::vector<std::pair<std::string, std::string>>& frameworks) {
  std::string text = absl::StrCat("Farandole v", kVersion, ":\n\nAvailable Frameworks:\n");
  for (const auto& [name, why_not] : frameworks) {
    absl::StrAppend(&text, "    [", why_not.empty() ? "X" : " ", "] ", name,
                    why_not.empty() ? "" : absl::StrCat(" (", why_not, ")"), "\n");
  }
  return absl::StrCat(text, R"(
Available Controllers:
    [ ] MPI
    [X] Gloo

Available Tensor Operations:
    [X] NCCL
    [ ] DDL
    [ ] CCL
    [ ] MPI
    [X] Gloo
)");
}

}  // namespace farandole::launcher
