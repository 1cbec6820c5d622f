#ifndef FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GPUS_H_
#define FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GPUS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/device/cuda_driver.h"
#include "worker/device/host_kernels.h"
#include "worker/device/nccl_library.h"

// The objects behind the driver's handles; complete here, since cuda.h leaves them incomplete.
namespace farandole {
class FakeGraph;
}

struct CUevent_st {
  // How often it was recorded, and the last of these that its stream has reached.
  uint64_t recorded = 0;
  uint64_t reached = 0;
  bool is_timed = false;
  std::chrono::steady_clock::time_point time;
  // Not null: it was recorded last in a capture, as this point of it.
  farandole::FakeGraph* graph = nullptr;
  uint64_t point = 0;
};
struct CUstream_st {
  // Each gives false as long as it cannot run yet.
  std::deque<std::function<bool()>> tasks;
  // Not null: it is captured.
  farandole::FakeGraph* graph = nullptr;
};
struct CUmod_st {
  // Functions that were asked for.
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  std::string image;
};
struct CUfunc_st {
  farandole::HostKernel kernel = nullptr;
};

namespace farandole {

class FakeClique;

// GPUs and NCCL for tests, in this process's memory, behind the tables of functions that the real ones fill. The work
// of streams runs later, on a thread of its own, in an order that is drawn from the seed and that CUDA would allow: so
// a caller that forgets to wait reads data that is not there yet. Memory is filled with garbage when it is
// allocated and freed. Kernels are those of batch_kernel.cu, compiled for the host. One at a time.
class FakeGpus {
 public:
  // Seeds that are multiples of it are of the same libraries.
  static constexpr uint32_t kVersions = 5;

  explicit FakeGpus(int gpus, uint32_t seed);
  // Everything that was made is destroyed before.
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  // Ranks are other processes, which use the same directory, in memory for speed: call it before anything else.
  void ShareThrough(const std::string& directory, uint32_t process);

  const CudaDriver& driver() const { return driver_; }
  const NcclLibrary& nccl() const { return nccl_; }

  // A stream of the framework, and something that runs there.
  CudaStream MakeStream();
  void Launch(CudaStream stream, std::function<void()> work);
  // Later work in the stream waits until `is_over` gives true.
  void Block(CudaStream stream, std::function<bool()> is_over);
  // Waits until the stream is empty.
  void Synchronize(CudaStream stream);

  // The next call of this name gives `result` and does nothing.
  void FailNext(const std::string& call, int result);
  // Collectives wait for ever, as where a peer is gone; until the communicator is aborted.
  void HangCollectives(bool hang);
  // Splits of communicators do not get on.
  void HoldSplits(bool hold);
  // From now on no module can be loaded, as by a driver that does not know its PTX.
  void RefuseModules();
  // No stream gets on.
  void HoldStreams(bool hold);
  // Streams take nothing more, as behind some thousand calls that wait for hanging work: a thread that gives them more
  // waits, until a communicator is aborted.
  void FillStreams();
  // Waits until so many threads do.
  void AwaitBlocked(int threads);
  // As GetAsyncError tells it of all communicators.
  void BreakCommunicators(int result);
  // Gives NCCL another version, and all GPUs another compute capability (86: 8.6). To be called before they are used.
  void BeOf(int nccl_version, int capability);
  // The stream's work from now on, and that of streams that wait for it, becomes a graph. Meanwhile all threads may
  // only make relaxed calls.
  void BeginCapture(CudaStream stream);
  // Null: streams have become part of the capture that do not end in this one.
  std::unique_ptr<FakeGraph> EndCapture(CudaStream stream);
  void Launch(CudaStream stream, const FakeGraph& graph);
  // Nothing of it runs any more.
  void Destroy(std::unique_ptr<FakeGraph> graph);
  // Names of the calls since the last one, except for those that only look.
  std::vector<std::string> TakeCalls();
  // The number of allocations, connections and references: 0 when all is over.
  int live() const;
  void AwaitNothingLive();

 private:
  friend struct FakeCalls;
  friend struct FakeNcclCalls;
  // The lock, for a call that gives a stream something.
  std::unique_lock<std::mutex> LockWithRoom();
  // Locked: the error that the call must return; else 0.
  int Enter(const char* call);
  void Run();
  void DestroyLocked(std::unique_ptr<FakeGraph> graph);
  int LiveLocked() const {
    return static_cast<int>(memory_.size() + modules_.size()) + events_ + communicators_ + contexts_;
  }
  // Locked: gives the stream something to run.
  void Push(CudaStream stream, std::function<bool()> task);
  // The same, of a task that `make` gives when the stream is given it, or when the graph is launched that it is part
  // of.
  void PushMade(CudaStream stream, std::function<std::function<bool()>()> make);

  CudaDriver driver_ = {};
  NcclLibrary nccl_ = {};
  const int gpus_;
  int capability_ = 90;
  bool are_full_ = false;
  int blocked_ = 0;  // threads that wait for room
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 random_;
  std::set<CudaStream> streams_;
  std::map<CudaAddress, std::unique_ptr<std::vector<char>>> memory_;
  std::map<std::string, int> failures_;
  std::vector<std::string> calls_;
  std::map<uint64_t, std::shared_ptr<FakeClique>> cliques_;
  std::map<int, double> scales_;  // of reductions that were made
  std::string directory_;         // "": ranks are of this process
  uint64_t last_id_ = 0;
  int last_op_ = 100;
  std::vector<std::unique_ptr<CUevent_st>> made_events_;
  int events_ = 0;  // of them, not destroyed
  int communicators_ = 0;
  int contexts_ = 0;  // retained
  std::set<CudaModule> modules_;
  bool refuses_modules_ = false;
  int broken_ = 0;
  bool hangs_ = false;
  bool holds_ = false;
  bool holds_splits_ = false;
  std::set<const FakeGraph*> captured_;  // now
  bool stopping_ = false;
  std::thread runner_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FAKE_FAKE_GPUS_H_
