#ifndef FARANDOLE_DEPLOY_LAUNCHER_POLICY_FAILURE_REPORT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_POLICY_FAILURE_REPORT_H_

#include <sys/types.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launcher/policy/stop_policy.h"

namespace farandole::launcher {

// "12.3 s".
std::string FormatSeconds(absl::Duration duration);

// The report at the end of a run that failed. Plain data; pure.
struct FailureReport {
  // The launcher's name.
  std::string program = "farandole";
  // The worker that failed first.
  int worker = 0;
  pid_t pid = 0;
  std::string host;
  // Its last lines on stderr.
  std::deque<std::string> last_lines;
  // They were shown when it ended.
  bool are_lines_shown = false;
  // How and when (since the start) workers ended, by index; the one that failed among them.
  struct End {
    WorkerEnd end;
    absl::Duration time;
  };
  std::map<int, End> ends;
  // Which collective was missing on whom; "": not known.
  std::string collectives;

  // The report, line by line, each as it will be printed.
  std::vector<std::string> Lines() const;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_POLICY_FAILURE_REPORT_H_
