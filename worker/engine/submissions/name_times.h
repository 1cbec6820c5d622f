#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_NAME_TIMES_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_NAME_TIMES_H_

#include <cstddef>

#include "farandole/v1/flight.pb.h"
#include "worker/engine/submissions/book/name_table.h"

namespace farandole {

// The most names of a rank that are told, as FlightRecords.times says.
inline constexpr size_t kMostNameTimes = 512;

// Adds to `records` how the names that are known have fared in the epoch: of more than kMostNameTimes, those that took
// the most time, and how many are left out. Called under the lock of the table's owner.
void AddNameTimes(const NameTable& names, v1::FlightRecords* records);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_NAME_TIMES_H_
