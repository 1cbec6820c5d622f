#include "tests/simulation/training_plan.h"

#include "absl/strings/str_cat.h"

namespace farandole {

TrainingPlan TrainingPlan::Random(VirtualTime* time, int workers, bool disagreements) {
  constexpr OpType kOps[] = {OpType::kAllreduce, OpType::kAllreduce, OpType::kBroadcast, OpType::kAllgather,
                             OpType::kBarrier};
  TrainingPlan plan;
  const int64_t names = time->Between(1, 8);
  plan.steps.resize(time->Between(3, 25));
  for (Step& step : plan.steps) {
    for (int64_t name = 0; name < names; ++name) {
      if (time->OneIn(4)) continue;
      Tensor tensor;
      // A name keeps its op, as in a program; its other terms may change.
      tensor.op = kOps[name % 5];
      tensor.name = absl::StrCat("t", name);
      tensor.count = time->OneIn(3) ? time->Between(0, 20) : time->Between(1, 3000);
      tensor.root = static_cast<int>(time->Between(0, workers - 1));
      // A rank that gets the error and leaves at once may be seen to leave before the others have theirs.
      if (disagreements && &step != &plan.steps.back() && workers > 1 && tensor.op == OpType::kAllreduce &&
          time->OneIn(20))
        tensor.odd_rank = static_cast<int>(time->Between(0, workers - 1));
      step.push_back(tensor);
    }
  }
  return plan;
}

float TrainingPlan::Value(int rank, size_t step, size_t tensor, int64_t element) {
  return static_cast<float>((rank + 1) * static_cast<int>(step % 5 + 1) + static_cast<int>(tensor) +
                            static_cast<int>(element % 3));
}

int64_t TrainingPlan::CountOf(const Tensor& tensor, int rank, size_t step) {
  if (tensor.op == OpType::kBarrier) return 0;
  if (tensor.op == OpType::kAllgather) return (rank + static_cast<int64_t>(step)) % 3 * (tensor.count % 7 + 1);
  return rank == tensor.odd_rank ? tensor.count + 1 : tensor.count;
}

}  // namespace farandole
