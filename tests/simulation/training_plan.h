#ifndef FARANDOLE_TESTS_SIMULATION_TRAINING_PLAN_H_
#define FARANDOLE_TESTS_SIMULATION_TRAINING_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/virtual_time.h"
#include "worker/core/collective.h"

namespace farandole {

// The work of every worker of a simulated job: in each step it submits these tensors, in its own order,
// and compares the results with what they must be.
struct TrainingPlan {
  struct Tensor {
    std::string name;  // empty: unnamed
    OpType op = OpType::kAllreduce;
    int64_t count = 0;
    int root = 0;
    // The rank whose shape differs, so that all get an error; -1: none.
    int odd_rank = -1;
  };
  using Step = std::vector<Tensor>;

  std::vector<Step> steps;
  // Rank 0 writes a checkpoint after each so many steps.
  int checkpoint_every = 4;

  // With `disagreements`, ranks differ now and then.
  static TrainingPlan Random(VirtualTime* time, int workers, bool disagreements);

  // Rank `rank`'s elements of a tensor in a step: small whole numbers, whose sums are exact.
  static float Value(int rank, size_t step, size_t tensor, int64_t element);
  // Elements that a rank contributes: an allgather's rows differ.
  static int64_t CountOf(const Tensor& tensor, int rank, size_t step);
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_TRAINING_PLAN_H_
