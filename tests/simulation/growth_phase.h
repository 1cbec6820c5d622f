#ifndef FARANDOLE_TESTS_SIMULATION_GROWTH_PHASE_H_
#define FARANDOLE_TESTS_SIMULATION_GROWTH_PHASE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace farandole {

// Messages and their bytes.
struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  void Add(uint64_t its_bytes) {
    ++messages;
    bytes += its_bytes;
  }
};

// The cost of one part of a job's life to one process.
struct GrowthPhase {
  std::string name;
  Traffic in;
  Traffic out;
  uint64_t store_bytes = 0;
  double cpu_ms = 0;
};

// The coordinator's core with the messages of a job of `ranks` ranks, eight on a host: joining, forming, the first step
// of a model of `names` tensors, a second of signs of life, and leaving; and of an elastic job that loses a rank.
std::vector<GrowthPhase> MeasureCoordinator(int ranks, int names);

// The leaders of such a job in a step in which every rank submits `names` tensors, which become one batch: rank 0, and
// for each level of the tree below it the leader with the most traffic.
std::vector<GrowthPhase> MeasureTree(int ranks, int names);

// CPU time of this process.
double CpuMs();

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_GROWTH_PHASE_H_
