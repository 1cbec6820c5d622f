#ifndef FARANDOLE_SERVER_JOB_RULES_AGREEMENT_H_
#define FARANDOLE_SERVER_JOB_RULES_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "farandole/v1/worker.pb.h"

namespace farandole {

// Which fields of two ranks' Ready must agree is one table, by op, in agreement.cc; a new op is a new row.

// The fault of `ready` by itself, in a group of `group_size` ranks, as a claim that follows a rank's name ("has
// root 4, and the group has 4 ranks"); "" if there is none. Checks the bounds of types.proto, but not the name.
std::string FaultOf(const v1::Ready& ready, size_t group_size);

// Whether two ranks' statements about one tensor agree, as far as their op wants them to.
bool Agree(const v1::Ready& a, const v1::Ready& b);

// The first field in which `a` and `b` disagree, with both values: "rank 0 has shape [4,8], rank 1 has shape [8,4]"; ""
// if they agree.
std::string Disagreement(uint32_t rank_a, const v1::Ready& a, uint32_t rank_b, const v1::Ready& b);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_AGREEMENT_H_
