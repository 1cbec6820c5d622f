#include "deploy/cli/text/diagnosis_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/cli/text/text_table.h"

namespace farandole {
namespace {

// Of less there is nothing to say: programs need as long to start.
constexpr double kLeastSeconds = 5;
// Ranks differ a little from step to step in any job.
constexpr double kLeastSlowdown = 1.01;

std::string ShowTime(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%.1f s", seconds);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ShowShares(const v1::Measured& measured) {
  return absl::StrFormat("%.0f %% own, %.0f %% waiting for ranks, %.0f %% collectives", measured.own_percent(),
                         measured.waited_percent(), measured.transfer_percent());
}

std::string ShowDiagnosis(const v1::Diagnosis& diagnosis) {
  const v1::Measured& now = diagnosis.now();
  const v1::Measured& shown = now.seconds() > 0 ? now : diagnosis.total();
  if (shown.seconds() <= 0) return "";
  std::string text = absl::StrCat(
      "time         ", ShowShares(shown),
      absl::StrFormat("; %.1f steps/s (%s)\n", static_cast<double>(shown.steps()) / shown.seconds(),
                      now.seconds() > 0 ? absl::StrCat("the last ", ShowTime(now.seconds())) : "since its start"));
  if (shown.slowdown() >= kLeastSlowdown) {
    absl::StrAppend(&text,
                    absl::StrFormat("slowdown     %.2f: the time, over what it would be without waits for ranks\n",
                                    shown.slowdown()));
  }
  for (const v1::Blocker& blocker : diagnosis.blockers()) {
    absl::StrAppend(&text, "slowed by    ", WithoutControls(blocker.sentence()),
                    absl::StrFormat(" (%.0f %% of the job's time)\n", blocker.percent()));
  }
  return text;
}

std::vector<std::string> SumUpRun(const v1::GetJobResponse& job) {
  const v1::Measured& total = job.diagnosis().total();
  if (job.summary().size() < 2 || total.seconds() < kLeastSeconds) return {};
  const v1::Diagnosis& diagnosis = job.diagnosis();
  const std::string name = WithoutControls(job.summary().job());
  return {absl::StrCat(ShowTime(total.seconds()), ", ", total.steps(), " steps: ", ShowShares(total)),
          diagnosis.has_worst() ? WithoutControls(diagnosis.worst().sentence())
                                : "no rank kept the others waiting for long",
          absl::StrCat("to look closer while it runs: farandole job show ", name,
                       ", or --timeline-filename; docs/diagnosis.md says how to read it")};
}

}  // namespace farandole
