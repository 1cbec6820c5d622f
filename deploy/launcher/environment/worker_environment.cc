#include "deploy/launcher/environment/worker_environment.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole::launcher {
namespace {

absl::string_view NameOf(absl::string_view variable) { return variable.substr(0, variable.find('=')); }

bool Has(const std::vector<std::string>& variables, absl::string_view name) {
  return std::any_of(variables.begin(), variables.end(),
                     [name](const std::string& variable) { return NameOf(variable) == name; });
}

// Variables of one host, its user, or the session or task in which the launcher was started.
constexpr absl::string_view kOfHost[] = {"_",
                                         "DISPLAY",
                                         "GPU_DEVICE_ORDINAL",
                                         "HOME",
                                         "HOST",
                                         "HOSTNAME",
                                         "INVOCATION_ID",
                                         "JOURNAL_STREAM",
                                         "KRB5CCNAME",
                                         "LOGNAME",
                                         "LS_COLORS",
                                         "MAIL",
                                         "MPI_LOCALNRANKS",
                                         "MPI_LOCALRANKID",
                                         "NOTIFY_SOCKET",
                                         "OLDPWD",
                                         "PWD",
                                         "PYTHONHOME",
                                         "SHELL",
                                         "SHLVL",
                                         "SLURMD_NODENAME",
                                         "SLURM_LOCALID",
                                         "SLURM_NODEID",
                                         "SLURM_PROCID",
                                         "STY",
                                         "TEMP",
                                         "TERM",
                                         "TMP",
                                         "TMPDIR",
                                         "TMUX",
                                         "TTY",
                                         "USER",
                                         "WINDOWID",
                                         "XAUTHORITY"};
constexpr absl::string_view kPrefixesOfHost[] = {"BASH_FUNC_", "DBUS_", "GPG_", "LISTEN_", "OMPI_COMM_WORLD_",
                                                 "PMI_",       "PMIX_", "SSH_", "SUDO_",   "SYSTEMD_",
                                                 "TMUX_",      "XDG_"};

bool IsBoundToHost(absl::string_view name) {
  return absl::c_linear_search(kOfHost, name) || absl::EndsWith(name, "_VISIBLE_DEVICES") ||
         absl::c_any_of(kPrefixesOfHost, [name](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

}  // namespace

std::string ValueOf(const std::vector<std::string>& variables, const std::string& name) {
  for (const std::string& variable : variables) {
    if (NameOf(variable) == name && variable.size() > name.size()) return variable.substr(name.size() + 1);
  }
  return "";
}

std::vector<std::string> OverlayVariables(const std::vector<std::string>& base,
                                          const std::vector<std::string>& overlay) {
  std::vector<std::string> variables;
  for (const std::string& variable : base) {
    if (!Has(overlay, NameOf(variable))) variables.push_back(variable);
  }
  variables.insert(variables.end(), overlay.begin(), overlay.end());
  return variables;
}

std::vector<std::string> TravellingVariables(const std::vector<std::string>& all,
                                             const std::vector<std::string>& exported) {
  std::vector<std::string> given;
  std::vector<std::string> travelling;
  for (const std::string& variable : exported) {
    if (absl::StrContains(variable, '=')) given.push_back(variable);
  }
  for (const std::string& variable : all) {
    const absl::string_view name = NameOf(variable);
    const bool is_exported = std::find(exported.begin(), exported.end(), name) != exported.end();
    const bool is_variable = variable.size() > name.size() && !name.empty();
    if (is_variable && (is_exported || !IsBoundToHost(name))) travelling.push_back(variable);
  }
  return OverlayVariables(travelling, given);
}

std::vector<std::string> ElasticSettings::Variables() const {
  const std::pair<const char*, int64_t> all[] = {
      {"FARANDOLE_MIN_SIZE", min_size},
      {"FARANDOLE_MAX_SIZE", max_size},
      {"FARANDOLE_ELASTIC_TIMEOUT_MS", shortage_limit_ms},
      {"FARANDOLE_RESET_LIMIT", reset_limit},
      {"FARANDOLE_COOLDOWN_MIN_MS", least_cooldown_ms},
      {"FARANDOLE_COOLDOWN_MAX_MS", most_cooldown_ms},
  };
  std::vector<std::string> variables;
  for (const auto& [name, value] : all) {
    if (value > 0) variables.push_back(absl::StrCat(name, "=", value));
  }
  return variables;
}

std::map<std::string, std::string> WorkerSettings::ThreadVariables() const {
  const std::string share = absl::StrCat(std::max(1, cores / size_here));
  std::map<std::string, std::string> variables;
  for (const char* name : {"OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS"}) {
    if (!Has(inherited, name)) variables.emplace(name, share);
  }
  return variables;
}

std::vector<std::string> WorkerSettings::Environment(int worker, int slot, int local_size) const {
  std::map<std::string, std::string> told = {
      {"FARANDOLE_JOB", job},
      {"FARANDOLE_SIZE", absl::StrCat(size)},
      {"FARANDOLE_LAUNCH_INDEX", absl::StrCat(first_index + worker)},
      {"FARANDOLE_LOCAL_SLOT", absl::StrCat(slot)},
  };
  if (!coordinator.empty()) {
    told["FARANDOLE_COORDINATOR"] = coordinator;
    told["FARANDOLE_TOKEN_FILE"] = token_file;
    // Where TLS is not spoken, the user's must not meet our coordinator.
    if (!ca_file.empty() || Has(inherited, "FARANDOLE_CA_FILE")) told["FARANDOLE_CA_FILE"] = ca_file;
    for (const char* own : {"FARANDOLE_CERT_FILE", "FARANDOLE_KEY_FILE"}) {
      if (Has(inherited, own)) told[own] = "";
    }
  }
  if (join_timeout_ms > 0) told["FARANDOLE_JOIN_TIMEOUT_MS"] = absl::StrCat(join_timeout_ms);
  told.merge(ThreadVariables());
  if (!nccl_interfaces.empty()) told["NCCL_SOCKET_IFNAME"] = nccl_interfaces;
  if (!Has(inherited, "PYTHONUNBUFFERED")) told["PYTHONUNBUFFERED"] = "1";
  if (!drop_in.empty()) {
    const std::string path = ValueOf(inherited, "PYTHONPATH");
    told["PYTHONPATH"] = path.empty() ? drop_in : absl::StrCat(drop_in, ":", path);
    told["HOROVOD_HOSTNAME"] = host;
    if (is_elastic) {
      told["HOROVOD_ELASTIC"] = "1";
    } else {
      told["HOROVOD_SIZE"] = told["FARANDOLE_SIZE"];
      told["HOROVOD_RANK"] = told["FARANDOLE_LAUNCH_INDEX"];
      told["HOROVOD_LOCAL_SIZE"] = absl::StrCat(local_size);
      told["HOROVOD_LOCAL_RANK"] = absl::StrCat(slot);
      const CrossPlace cross = FindCrossPlace(shares, host, slot);
      told["HOROVOD_CROSS_SIZE"] = absl::StrCat(cross.size);
      told["HOROVOD_CROSS_RANK"] = absl::StrCat(cross.rank);
    }
  }
  std::vector<std::string> environment;
  for (const std::string& variable : inherited) {
    if (told.count(std::string(NameOf(variable))) == 0) environment.push_back(variable);
  }
  for (const auto& [name, value] : told) environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

}  // namespace farandole::launcher
