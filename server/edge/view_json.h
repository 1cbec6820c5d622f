#ifndef FARANDOLE_SERVER_EDGE_VIEW_JSON_H_
#define FARANDOLE_SERVER_EDGE_VIEW_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// Rows that one reply has at most.
inline constexpr size_t kMostRows = 500;

// The rows of a list that "offset" and "limit" of a query choose.
struct RowRange {
  size_t first = 0;
  size_t end = 0;
};
// `found`: how many there are. Without a limit there are `otherwise`, and never more than `most`.
RowRange RowsOf(absl::string_view query, size_t found, size_t otherwise, size_t most);

// The parts of a job that pages of the dashboard show, each within some kilobytes however many ranks it has:
//   page         the job without its workers: their number by state, its judgement, its history
//   workers      its workers, by page: offset=, limit= (100), order= (rank, own, waited, transfer, cpu, alone, silence;
//                all but rank: the greatest first), host= (a host's id)
//   rank         one worker, rank=
//   charts       the history of rank= (a number, or "all") or host= that the job was asked for
//   hosts        its hosts with their network, and the averages of their ranks; offset=, limit=, or one: host= (its id)
//   collectives  the at most 64 collectives in which most ranks are: how many submitted them last, wait, and run them
// INVALID_ARGUMENT: there is no such view or order. NOT_FOUND: no such rank or host.
absl::StatusOr<std::string> ViewJson(absl::string_view view, absl::string_view query, const v1::GetJobResponse& job,
                                     int64_t at_unix_ms);

// One byte for each rank. The upper three bits: 0 live, 1 draining, 2 left, 3 lost, 4 any other state. The lower five:
// the program's own share of the time in thirtieths; 31: not measured.
std::string RankBytes(const v1::GetJobResponse& job);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_VIEW_JSON_H_
