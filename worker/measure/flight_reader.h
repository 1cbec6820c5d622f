#ifndef FARANDOLE_WORKER_MEASURE_FLIGHT_READER_H_
#define FARANDOLE_WORKER_MEASURE_FLIGHT_READER_H_

#include <cstddef>
#include <cstdint>

#include "farandole/v1/flight.pb.h"
#include "worker/measure/flight_page.h"

namespace farandole {

// The most of a rank's latest submissions that are shown, whether it is alive or dead.
inline constexpr size_t kShownFlights = 256;

// The submissions of the epoch that a rank is in, or was in when its process died: the `most` latest, and older ones
// that are not finished, 64 of them at most. `now_ns`: the monotonic clock of the rank's host. Records that the rank
// overwrites meanwhile are left out. Without any epoch the answer has no rank.
v1::FlightRecords ReadFlight(const FlightPage& page, size_t most, int64_t now_ns);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_FLIGHT_READER_H_
