#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_FLIGHT_JUDGE_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_FLIGHT_JUDGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "farandole/v1/flight.pb.h"

namespace farandole {

// The verdict of all ranks' flight recorders about an epoch that stands still, or has ended by a failure.
struct FlightFinding {
  // Collectives that some ranks have submitted and that are not finished: first those that miss a rank, the longest
  // wait first; at most 16.
  std::vector<v1::FlightWait> waits;
  // "rank 3 finished 'grad.17' (batch 412) last and has not submitted 'grad.18', for which ranks 0-2 wait, the longest
  // for 12.3 s"; about the first three waits. "": nobody waits.
  std::string sentence;
};

// By rank; an epoch's ranks are [0, size). Submissions with the same group, name and ordinal belong
// together. The ranks of a group are those that have submitted anything in it; of group 0 all. Pure.
FlightFinding JudgeFlights(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_FLIGHT_JUDGE_H_
