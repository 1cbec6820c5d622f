#ifndef FARANDOLE_DEPLOY_CLI_TEXT_DIAGNOSIS_TEXT_H_
#define FARANDOLE_DEPLOY_CLI_TEXT_DIAGNOSIS_TEXT_H_

#include <string>
#include <vector>

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// "61 % own, 32 % waiting for ranks, 7 % collectives".
std::string ShowShares(const v1::Measured& measured);

// For `farandole job show`: where the time goes now, and a line for each blocker; "" where nothing was measured.
std::string ShowDiagnosis(const v1::Diagnosis& diagnosis);

// The three lines at the end of `farandole run`: the time and how it was spent, the worst rank, and where to look. None
// for a run of one worker, and for one that was measured for less than 5 s.
std::vector<std::string> SumUpRun(const v1::GetJobResponse& job);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TEXT_DIAGNOSIS_TEXT_H_
