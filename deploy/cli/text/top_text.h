#ifndef FARANDOLE_DEPLOY_CLI_TEXT_TOP_TEXT_H_
#define FARANDOLE_DEPLOY_CLI_TEXT_TOP_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// The screens of `farandole top`. Pure. `lines` and `columns` 0: as many as there are.

// The jobs, the newest first, with what slows each of them down.
std::string ShowTopJobs(const std::vector<v1::JobSummary>& jobs, absl::Time now, size_t lines);
// One job: the verdict, broken into lines where the screen is narrow, and its ranks, first those for which the others
// have waited longest lately.
std::string ShowTopJob(const v1::GetJobResponse& job, absl::Time now, size_t lines, size_t columns = 0);

// `text` cut to a screen of so many columns and lines; UTF-8 sequences stay whole.
std::string FitToScreen(const std::string& text, size_t columns, size_t lines);
// The bytes by which a terminal that shows another text shows this one, with no empty screen in between.
std::string DrawOver(const std::string& text);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TEXT_TOP_TEXT_H_
