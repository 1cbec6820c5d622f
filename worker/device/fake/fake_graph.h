#ifndef FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GRAPH_H_
#define FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "worker/device/cuda_driver.h"

namespace farandole {

// A CUDA graph of the fake GPUs: the work that its streams were given while they were captured. Guarded by their lock.
class FakeGraph {
 public:
  // Gives false as long as it cannot run yet.
  using Task = std::function<bool()>;

  explicit FakeGraph(CudaStream origin) : origin_(origin) {}

  // `make` gives the task of one run.
  void Add(CudaStream stream, std::function<Task()> make) { nodes_.push_back({stream, std::move(make), 0, 0}); }
  // The point that the stream has come to.
  uint64_t Record(CudaStream stream);
  void Wait(CudaStream stream, uint64_t point) { nodes_.push_back({stream, nullptr, 0, point}); }
  // A call has been made that CUDA allows in no capture: nothing comes of it.
  void Spoil() { is_spoiled_ = true; }
  bool is_spoiled() const { return is_spoiled_; }
  // Whether all that was captured comes before the end of the stream that it began with.
  bool IsJoined() const;

  // The tasks of one run, by the streams that they were captured from. They wait for each other as these did, and for
  // nothing else.
  std::map<CudaStream, std::vector<Task>> Run() const;

  std::vector<CudaAddress>& memory() { return memory_; }
  // To be called when it is destroyed.
  std::vector<std::function<void()>>& holds() { return holds_; }

 private:
  struct Node {
    CudaStream stream;
    std::function<Task()> make;
    uint64_t recorded;
    uint64_t awaited;
  };

  const CudaStream origin_;
  std::vector<Node> nodes_;  // in the order of the capture
  uint64_t points_ = 0;
  bool is_spoiled_ = false;
  std::vector<CudaAddress> memory_;
  std::vector<std::function<void()>> holds_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GRAPH_H_
