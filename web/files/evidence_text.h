#ifndef FARANDOLE_WEB_FILES_EVIDENCE_TEXT_H_
#define FARANDOLE_WEB_FILES_EVIDENCE_TEXT_H_

#include <string>

#include "farandole/v1/monitor.pb.h"

namespace farandole {

// For `farandole diagnose`: the verdict, the graph of waits, the groups of equal stacks, and the ranks that did not
// answer. Names of the job's programs are shown without control characters.
std::string ShowEvidence(const v1::DiagnoseResponse& answer);
// Why a rank has no native stacks; "": it has some, or none were asked for.
std::string WhyNoNative(const v1::Evidence& evidence);
// All of the answer, with the fields' names as in proto/farandole/v1/monitor.proto.
std::string EvidenceJson(const google::protobuf::Message& answer);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_EVIDENCE_TEXT_H_
