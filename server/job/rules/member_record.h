#ifndef FARANDOLE_SERVER_JOB_RULES_MEMBER_RECORD_H_
#define FARANDOLE_SERVER_JOB_RULES_MEMBER_RECORD_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// The members of an epoch as they are kept, apart from the job's record, which changes with each member that leaves:
// a MembersRecord, compressed, since thousands of members differ in few bytes.

// The most that fits into a store batch beside the job's record with a full history.
inline constexpr size_t kMostMembersRecordBytes = 768 << 10;

std::string PackMembers(const v1::Epoch& epoch);
// An epoch with number and members.
//   DATA_LOSS: these bytes are no such record
absl::StatusOr<v1::Epoch> UnpackMembers(const std::string& record);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_MEMBER_RECORD_H_
