// The part of Launch that says how a launch has failed.
#include "deploy/launcher/launch.h"
#include "deploy/launcher/policy/failure_report.h"

namespace farandole::launcher {

void Launch::ReportFailure() {
  const int failed = policy_.first_failed();
  FailureReport report;
  report.program = plan_.program;
  report.worker = failed;
  report.pid = workers_[failed].pid;
  report.host = workers_[failed].host;
  report.last_lines = outputs_.errors(failed).tail().lines();
  report.are_lines_shown = workers_[failed].is_loss_said || AreLastLinesAbove(failed);
  for (int index = 0; index < policy_.workers(); ++index) {
    // The launcher has reported failures that the elastic job outlived.
    if (is_elastic() && policy_.end_time(index) < policy_.end_time(failed)) continue;
    report.ends[index] = {policy_.end(index), policy_.end_time(index)};
  }
  if (plan_.link != nullptr) report.collectives = plan_.link->ReportFlights(policy_.flights());
  for (const std::string& line : report.Lines()) console_.Report(line);
}

}  // namespace farandole::launcher
