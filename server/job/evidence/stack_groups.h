#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_STACK_GROUPS_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_STACK_GROUPS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "farandole/v1/flight.pb.h"

namespace farandole {

// Groups ranks by the stacks of their main threads, the first of each: the greatest group first, then the one with the
// lowest rank. One that has more ranks than any other is dominant; most programs run the same on all ranks, so the
// others are the suspects. Where the program's language tells its stacks, those decide. Otherwise the functions of
// compiled code do, whatever their addresses and lines, from the outermost to the call of this library: within it ranks
// that wait for the same do different things. Pure.
std::vector<v1::StackGroup> GroupStacks(const std::map<uint32_t, v1::Evidence>& evidence);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_STACK_GROUPS_H_
