#ifndef FARANDOLE_WORKER_TEST_EPOCH_H_
#define FARANDOLE_WORKER_TEST_EPOCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine.h"
#include "worker/epoch_page.h"
#include "worker/test_coordinator.h"
#include "worker/transport/shm_transport.h"

namespace farandole {

// A tensor of float32 that a test's rank submits in place.
struct TestTensor {
  TestTensor() = default;
  TestTensor(std::string its_name, std::vector<float> its_values)
      : name(std::move(its_name)), values(std::move(its_values)), shape{static_cast<int64_t>(values.size())} {}

  std::string name;
  std::vector<float> values;
  std::vector<int64_t> shape;
  OpType op = OpType::kAllreduce;
  uint32_t group = 0;
  int root_rank = 0;
  int64_t handle = 0;
};

// All ranks of one epoch in this process: engines over pages and transports in private memory, and a coordinator.
class TestEpoch {
 public:
  struct Options {
    uint32_t seed = 1;
    int64_t fusion_bytes = 64 << 20;
    int64_t yield_ns = 50'000;
  };
  explicit TestEpoch(int size) : TestEpoch(size, Options()) {}
  TestEpoch(int size, Options options);
  ~TestEpoch();
  TestEpoch(const TestEpoch&) = delete;
  TestEpoch& operator=(const TestEpoch&) = delete;

  int size() const { return size_; }
  Engine& engine(int rank) { return *engines_[rank]; }
  EpochPage& page(int rank) { return *pages_[rank]; }
  TestCoordinator& coordinator() { return coordinator_; }

  // Runs `work(rank)` on a thread for each rank, and returns when all have. Where one has failed, the epoch is ended.
  void OnEachRank(const std::function<void(int rank)>& work);
  // Tells all ranks of a group and waits until they know it.
  uint32_t AddGroup(const std::vector<int>& ranks);

  // Submits; sets tensor.handle.
  absl::Status Submit(int rank, TestTensor& tensor);
  // Waits for a submitted tensor and releases its handle. DEADLINE_EXCEEDED: not within a minute.
  absl::Status Wait(int rank, const TestTensor& tensor);
  // Both at once, as a synchronous call does.
  absl::Status Run(int rank, TestTensor& tensor);
  // Ends the epoch on all ranks, as a coordinator would.
  void AbortAll(const absl::Status& reason);

 private:
  const int size_;
  const size_t bytes_;
  char* const memory_;
  TestCoordinator coordinator_;
  std::vector<std::unique_ptr<EpochPage>> pages_;
  std::vector<std::unique_ptr<ShmTransport>> transports_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TEST_EPOCH_H_
