#ifndef FARANDOLE_DEPLOY_CLI_TEXT_COLLECTIVES_TEXT_H_
#define FARANDOLE_DEPLOY_CLI_TEXT_COLLECTIVES_TEXT_H_

#include <string>

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// An order in which people read the tensors.
enum class CollectiveOrder { kCost, kWait, kMoving, kBandwidth, kBytes, kCount };

// For `farandole collectives`: how many ranks have told something, a row for each tensor, and the ranks that did not
// answer.
std::string ShowCollectives(const v1::SurveyCollectivesResponse& answer, CollectiveOrder order);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TEXT_COLLECTIVES_TEXT_H_
