#include "deploy/launcher/policy/failure_report.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace farandole::launcher {
namespace {

// "worker 3", or "workers 1, 2 and 3".
std::string NameWorkers(const std::vector<int>& workers) {
  if (workers.size() == 1) return absl::StrCat("worker ", workers[0]);
  return absl::StrCat("workers ", absl::StrJoin(workers.begin(), workers.end() - 1, ", "), " and ", workers.back());
}

}  // namespace

std::string FormatSeconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::vector<std::string> FailureReport::Lines() const {
  std::vector<std::string> lines;
  const std::string what =
      absl::StrCat(program, ": worker ", worker, " (pid ", pid, ", host ", host, ") failed first, with ",
                   ends.at(worker).end.Describe(), ", ", FormatSeconds(ends.at(worker).time), " after the start");
  if (last_lines.empty()) {
    lines.push_back(absl::StrCat(what, "; it wrote nothing to stderr"));
  } else if (are_lines_shown) {
    lines.push_back(absl::StrCat(what, "; its last lines on stderr are above"));
  } else {
    lines.push_back(absl::StrCat(what, "; its last lines on stderr:"));
    for (const std::string& line : last_lines) lines.push_back(absl::StrCat("    ", line));
  }
  if (!collectives.empty()) lines.push_back(absl::StrCat(program, ": ", collectives));
  std::vector<int> earlier;
  std::map<std::string, std::vector<int>> later;
  for (const auto& [index, ended] : ends) {
    if (index == worker) continue;
    if (!ended.end.failed() && ended.time <= ends.at(worker).time) {
      earlier.push_back(index);
    } else {
      later[ended.end.Describe()].push_back(index);
    }
  }
  if (!earlier.empty()) {
    lines.push_back(absl::StrCat(program, ": ", NameWorkers(earlier),
                                 " had ended with exit code 0 before that; if not all "
                                 "workers have finished, those left may have waited for the ones that were gone"));
  }
  for (const auto& [end, workers] : later) {
    lines.push_back(absl::StrCat(program, ": ", NameWorkers(workers), " ended after that, with ", end));
  }
  return lines;
}

}  // namespace farandole::launcher
