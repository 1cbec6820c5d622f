#ifndef FARANDOLE_WEB_FILES_HANG_JSON_H_
#define FARANDOLE_WEB_FILES_HANG_JSON_H_

#include "farandole/v1/monitor.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace farandole {

// The evidence of who waits for whom as the dashboard shows it, within some 100 kB however many ranks there are:
//   epoch, size, answered            of which epoch; its ranks, and those that answered
//   stalled_unix_ms                  when the coordinator asked by itself; 0: it was asked to
//   sentence                         which collective is missing on whom; "" where nobody waits for anybody
//   waits[]                          name, op, group, waited_ms, and two groups of ranks: waiting, missing
//   stacks[]                         ranks, is_dominant, about (how it was read), frames[] of function, file, line; and
//                                    more_frames. Of compiled code about_native, why_no_native (of the main thread),
//                                    more_native_frames, and native_frames[], which have a module, too. At most 16
//                                    groups, the greatest first
//   silent[]                         ranks, why: those that did not answer, or have no stacks
//   recorders[]                      rank, is_missing, pid, epoch, unrecorded, threads[] (name, state, call), and
//                                    records[]: the latest 32 of the at most 8 ranks that matter, first those that
//                                    others wait for
//   settings[]                       "NAME=value" of the lowest rank that told any
// A group of ranks is {"text": "ranks 0-2,5", "count": 4, "first": 0}.
nlohmann::ordered_json HangJson(const v1::DiagnoseResponse& answer);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_HANG_JSON_H_
