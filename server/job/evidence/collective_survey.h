#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_COLLECTIVE_SURVEY_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_COLLECTIVE_SURVEY_H_

#include <cstdint>
#include <map>

#include "farandole/v1/flight.pb.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// Finds what each tensor costs from what ranks have said of themselves, by rank; `size`: of their epoch. Sets all of
// the answer that follows from that: size, answered, found, left_out, waited_us, moving_us and costs. Names, groups and
// ordinals pair the ranks' records; no time of a rank is compared with another's clock. A rank without `times`, as its
// launcher reads it, counts by its records. Ranks beyond `size` are left out.
v1::SurveyCollectivesResponse SurveyCollectives(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_COLLECTIVE_SURVEY_H_
