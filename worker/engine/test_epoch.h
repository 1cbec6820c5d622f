#ifndef FARANDOLE_WORKER_ENGINE_TEST_EPOCH_H_
#define FARANDOLE_WORKER_ENGINE_TEST_EPOCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_coordinator.h"
#include "worker/order/test_relay.h"
#include "worker/transport/shm/arena_table.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/transport.h"

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
  ReduceOp reduce_op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  uint32_t group = 0;
  int root_rank = 0;
  std::vector<int64_t> splits;
  // Takes the part of a reducescatter; the results of other ops replace `values`.
  std::vector<float> part;
  // As Request has them.
  const std::vector<GroupMember>* members = nullptr;
  int64_t after = 0;
  // Not null: it lies in the rank's GPU, and is there when this stream has come so far.
  CudaStream stream = nullptr;
  int64_t handle = 0;
};

// All ranks of one epoch in this process: engines over pages and transports in private memory, between hosts over the
// loopback, and a coordinator.
class TestEpoch {
 public:
  struct Options {
    uint32_t seed = 1;
    int64_t fusion_bytes = 64 << 20;
    int64_t yield_ns = 50'000;
    // As EngineOptions has it. False, and once the coordinator has stopped: a rank's engine works in its calls alone.
    bool has_data_thread = true;
    // As EngineOptions has it; fewer, so that a test reaches the bound.
    uint32_t max_slots = 4096;
    // Set: each rank has a GPU of these, that of its own number.
    std::optional<GpuLibraries> gpus = std::nullopt;
    // For the GPUs of all ranks.
    GpuRecorder gpu_recorder = {};
  };
  // `hosts`: ranks by host.
  explicit TestEpoch(const std::vector<int>& hosts) : TestEpoch(hosts, Options()) {}
  TestEpoch(const std::vector<int>& hosts, Options options);
  ~TestEpoch();
  TestEpoch(const TestEpoch&) = delete;
  TestEpoch& operator=(const TestEpoch&) = delete;

  int size() const { return size_; }
  Engine& engine(int rank) { return *engines_[rank]; }
  ReadyChannel& channel(int rank);
  TestCoordinator& coordinator() { return coordinator_; }
  ArenaTable& arenas(int rank) { return *arenas_[rank]; }

  // Runs `work(rank)` on a thread for each rank, and returns when all have. If one has failed, the epoch is ended.
  void OnEachRank(const std::function<void(int rank)>& work);
  // Tells all ranks of a group and waits until they know it.
  uint32_t AddGroup(const std::vector<int>& ranks);

  // Submits; sets tensor.handle.
  absl::Status Submit(int rank, TestTensor& tensor);
  // Waits for a submitted tensor, also where that is in a GPU, and releases its handle; of an allgather or alltoall
  // there, the result replaces `values`. DEADLINE_EXCEEDED: not within a minute.
  absl::Status Wait(int rank, TestTensor& tensor);
  // Both at once, as a synchronous call does.
  absl::Status Run(int rank, TestTensor& tensor);
  // Begins to join: `*last` is the last rank when the handle is complete.
  absl::StatusOr<int64_t> BeginJoining(int rank, int32_t* last);
  // The algorithms of the schedules that the rank has run, in their order.
  const std::vector<std::string>& algorithms(int rank) const { return algorithms_[rank]; }
  GpuCollectives& gpus(int rank) { return *gpus_[rank]; }
  // Ends the epoch on all ranks, as a coordinator would.
  void AbortAll(const absl::Status& reason);

 private:
  std::unique_ptr<Transport> MakeTransport(int rank);
  absl::StatusOr<std::unique_ptr<Operation>> Start(int rank, const Collective& collective);
  absl::Status PlaceOnGpu(int rank, const TestTensor& tensor, Request* request);
  absl::Status AwaitOnGpu(int rank, TestTensor& tensor);

  const int size_;
  TestCoordinator coordinator_;
  std::unique_ptr<TestRelay> relay_;
  // If there are several hosts.
  std::vector<std::unique_ptr<PeerPort>> ports_;
  std::vector<std::unique_ptr<ArenaTable>> arenas_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<BufferPool>> buffers_;
  std::vector<std::vector<std::string>> algorithms_;
  std::vector<std::unique_ptr<GpuCollectives>> gpus_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// The name of a test of one shape: ranks by host, "3x1x2x2".
std::string ShapeName(const ::testing::TestParamInfo<std::vector<int>>& tested);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_TEST_EPOCH_H_
