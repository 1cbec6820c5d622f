#include "deploy/launcher/worker_environment.h"

#include <algorithm>
#include <map>

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

}  // namespace

int WorkerSettings::OmpThreads() const { return std::max(1, cores / size); }

bool WorkerSettings::SetsOmpThreads() const { return !Has(inherited, "OMP_NUM_THREADS"); }

std::vector<std::string> WorkerSettings::Environment(int index) const {
  std::map<std::string, std::string> told = {
      {"FARANDOLE_COORDINATOR", coordinator},
      {"FARANDOLE_TOKEN_FILE", token_file},
      {"FARANDOLE_JOB", job},
      {"FARANDOLE_SIZE", absl::StrCat(size)},
      {"FARANDOLE_LAUNCH_INDEX", absl::StrCat(index)},
  };
  if (join_timeout_ms > 0) told["FARANDOLE_JOIN_TIMEOUT_MS"] = absl::StrCat(join_timeout_ms);
  if (SetsOmpThreads()) told["OMP_NUM_THREADS"] = absl::StrCat(OmpThreads());
  if (!Has(inherited, "PYTHONUNBUFFERED")) told["PYTHONUNBUFFERED"] = "1";
  std::vector<std::string> environment;
  for (const std::string& variable : inherited) {
    if (told.count(std::string(NameOf(variable))) == 0) environment.push_back(variable);
  }
  for (const auto& [name, value] : told) environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

}  // namespace farandole::launcher
