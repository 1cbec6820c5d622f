#ifndef FARANDOLE_WEB_FILES_COLLECTIVES_JSON_H_
#define FARANDOLE_WEB_FILES_COLLECTIVES_JSON_H_

#include "farandole/v1/monitor.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace farandole {

// Which tensors cost time, as the dashboard shows it; proto/farandole/v1/monitor.proto says more of each field.
//   state                            "asked" of the ranks; "kept": the epoch is over
//   epoch, size, answered            of which epoch; its ranks, and those that told something
//   asked_unix_ms                    when they were asked; 0: their launchers have read it when they ended
//   found, left_out                  names; those that ranks left out
//   waited_ms, moving_ms             of all ranks and names together
//   collectives[]                    name, op, group, is_on_gpu, count, bytes, waited_ms, wait_percent, mean_wait_ms,
//                                    longest_wait_ms, longest_wait_rank, moving_ms, mean_moving_ms,
//                                    algorithm_bytes_per_second, bus_bytes_per_second, compared, last[] (rank, times),
//                                    least_wait_rank, least_wait_ms. At most 64, the dearest first
//   silent[]                         ranks, why: those that did not answer
nlohmann::ordered_json CollectivesJson(const v1::SurveyCollectivesResponse& answer);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_COLLECTIVES_JSON_H_
