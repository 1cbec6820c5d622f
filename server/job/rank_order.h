#ifndef FARANDOLE_SERVER_JOB_RANK_ORDER_H_
#define FARANDOLE_SERVER_JOB_RANK_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farandole {

// What decides a worker's rank.
struct Candidate {
  std::string host_id;
  uint32_t launch_index = 0;
};

// Which candidate gets which rank: element r of the result is the index of the candidate that becomes rank r.
// `candidates` stand in the order in which they joined.
//
// Workers of one host are neighbours; hosts are ordered by the least launch index in them, workers within a host by
// their launch index; ties, of hosts and of workers, by the order of joining.
std::vector<size_t> OrderRanks(const std::vector<Candidate>& candidates);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RANK_ORDER_H_
