#include "worker/device/nccl/nccl_communicator.h"

#include <chrono>
#include <cstdlib>
#include <iterator>
#include <shared_mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/quiet_thread.h"
#include "base/steady_time.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

// How long peers may take that leave as well.
constexpr absl::Duration kLeaveLimit = absl::Seconds(5);
constexpr absl::Duration kPauseWhileConnecting = absl::Microseconds(100);
constexpr absl::Duration kPauseForGraphs = absl::Milliseconds(20);
constexpr std::chrono::seconds kExitLimit{2};
// A program has a few; one that has ever new ones pays for making them.
constexpr size_t kMostScaledSums = 64;
constexpr size_t kLeastFusionBytes = size_t{4} << 20;

// In the order of DType's numbers; -1: NCCL does not reduce the type.
constexpr int kNcclTypes[] = {
    kNcclUint8,   kNcclInt8,    -1,         kNcclInt32, kNcclInt64,      kNcclFloat16,    kNcclBfloat16,
    kNcclFloat32, kNcclFloat64, kNcclUint8, -1,         kNcclFloat8E4M3, kNcclFloat8E5M2,
};
static_assert(std::size(kNcclTypes) == kDTypeCount, "each element type has its row");

// The end of one of NCCL's communicators: in order, which peers do as well, or by an abort.
class NcclEnd {
 public:
  NcclEnd(const NcclLibrary* nccl, NcclComm comm, std::shared_ptr<Gpu> gpu, bool in_order)
      : nccl_(*nccl), comm_(comm), gpu_(std::move(gpu)), in_order_(in_order) {}

  // Goes on; true: it has ended. `gives_up`: it is aborted now.
  bool Advance(bool gives_up) {
    const Gpu::Scope scope(*gpu_);
    const bool is_in_order = in_order_ && scope.status().ok();
    int state = kNcclSuccess;
    if (is_in_order) {
      const int result = is_begun_ ? nccl_.ncclCommGetAsyncError(comm_, &state) : nccl_.ncclCommFinalize(comm_);
      if (!is_begun_ || result != kNcclSuccess) state = result;
      is_begun_ = true;
    }
    if (state == kNcclInProgress && !gives_up) return false;
    is_in_order&& state == kNcclSuccess ? nccl_.ncclCommDestroy(comm_) : nccl_.ncclCommAbort(comm_);
    return true;
  }

 private:
  const NcclLibrary& nccl_;
  const NcclComm comm_;
  const std::shared_ptr<Gpu> gpu_;
  const bool in_order_;
  bool is_begun_ = false;
};

// Calls of detached threads: LateCalls makes none once the process has begun to exit, which takes NCCL and CUDA down
// beneath them.
class LateCalls {
 public:
  // False: the process exits, and nothing was called.
  static bool Make(absl::FunctionRef<void()> calls) {
    LateCalls& all = All();
    const std::shared_lock<std::shared_timed_mutex> lock(all.mutex_);
    if (all.is_exiting_) return false;
    calls();
    return true;
  }

 private:
  static LateCalls& All() {
    static LateCalls* const all = [] {
      // Registered after the libraries' own functions, and so called before them.
      std::atexit([] {
        // An abort waits for graphs, of which there may still be some.
        const std::unique_lock<std::shared_timed_mutex> lock(All().mutex_, kExitLimit);
        if (lock.owns_lock()) All().is_exiting_ = true;
      });
      return new LateCalls;
    }();
    return *all;
  }

  std::shared_timed_mutex mutex_;
  bool is_exiting_ = false;
};

// Of communicators whose calls do not wait for peers.
NcclConfig Unblocking() {
  NcclConfig config;
  config.blocking = 0;
  return config;
}

}  // namespace

int NcclTypeOf(DType dtype) { return kNcclTypes[static_cast<int>(dtype)]; }

bool AwaitStream(Gpu& gpu, CudaStream stream, const std::function<bool()>& give_up) {
  const absl::StatusOr<GpuEvent> last = gpu.Record(stream);
  while (last.ok() && !give_up()) {
    const absl::StatusOr<bool> is_over = gpu.IsOver(*last);
    if (!is_over.ok() || *is_over) return is_over.ok();
    NcclCommunicator::Pause(/*is_connecting=*/true);
  }
  return false;
}

NcclCommunicator::~NcclCommunicator() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (CommLocked() != nullptr) EndLocked(failure_.ok());
}

void NcclCommunicator::EndLocked(bool in_order) {
  NcclEnd end(&nccl_, std::exchange(comm_, nullptr), gpu_, in_order);
  if (!is_captured_) {
    const absl::Time limit = SteadyNow() + kLeaveLimit;
    while (!end.Advance(SteadyNow() >= limit)) absl::SleepFor(kPauseWhileConnecting);
    return;
  }
  // With the memory that it uses until then; its last owner may release it with the communicator. If there are no more
  // threads, it stays.
  struct Late {
    NcclEnd end;
    std::shared_ptr<CUstream_st> stream;
    std::vector<std::shared_ptr<NcclMemory>> memory;
  };
  Late* const late = new Late{std::move(end), stream_, std::move(fusion_memory_)};
  DetachQuietly([late] {
    bool is_over = false;
    const auto go_on = [&] {
      is_over = late->end.Advance(/*gives_up=*/false);
      if (is_over) delete late;
    };
    while (!is_over && LateCalls::Make(go_on)) absl::SleepFor(kPauseForGraphs);
  });
}

absl::StatusOr<char*> NcclCommunicator::FusionMemory(size_t bytes) {
  size_t wanted = kLeastFusionBytes;
  while (wanted < bytes) wanted *= 2;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (!fusion_memory_.empty() && fusion_memory_.back()->bytes() >= bytes) return fusion_memory_.back()->data();
  }
  // Without the lock, which an abort needs: CUDA may wait for work that hangs.
  absl::StatusOr<std::shared_ptr<NcclMemory>> memory = NcclMemory::Allocate(&nccl_, gpu_, stream_, wanted);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (!memory.ok()) return Fail(memory.status());
  fusion_memory_.push_back(*memory);
  const Gpu::Scope scope(*gpu_);
  if (!scope.status().ok()) return Fail(scope.status());
  char* const data = (*memory)->data();
  // NCCL drops the handle with the communicator.
  void* handle = nullptr;
  absl::Status status = nccl_.Check(nccl_.ncclCommRegister(comm_, data, wanted, &handle), "ncclCommRegister", comm_);
  if (!status.ok()) return Fail(std::move(status));
  return data;
}

void NcclCommunicator::SetCaptured() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_captured_ = true;
}

void NcclCommunicator::Pause(bool is_connecting) {
  if (!is_connecting) return std::this_thread::yield();
  absl::SleepFor(kPauseWhileConnecting);
}

absl::Status NcclCommunicator::Fail(absl::Status status) {
  if (failure_.ok() && !status.ok()) failure_ = std::move(status);
  return failure_;
}

absl::Status NcclCommunicator::Begin(const NcclUniqueId& id, int size, int position) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (absl::Status status = TakeStreamLocked(); !status.ok()) return status;
  const Gpu::Scope scope(*gpu_);
  if (!scope.status().ok()) return Fail(scope.status());
  position_ = position;
  NcclConfig config = Unblocking();
  const int result = nccl_.ncclCommInitRankConfig(&comm_, size, id, position, &config);
  return Fail(nccl_.Check(result, "ncclCommInitRankConfig", nullptr));
}

absl::Status NcclCommunicator::TakeStreamLocked() {
  absl::StatusOr<std::shared_ptr<CUstream_st>> stream = gpu_->TakeStream();
  if (!stream.ok()) return Fail(stream.status());
  stream_ = *std::move(stream);
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Split(int color, NcclCommunicator* child) {
  {
    const std::lock_guard<std::mutex> lock(child->mutex_);
    if (absl::Status status = child->TakeStreamLocked(); !status.ok()) return status;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const Gpu::Scope scope(*gpu_);
  if (!scope.status().ok()) return Fail(scope.status());
  NcclConfig config = Unblocking();
  const int result = nccl_.ncclCommSplit(comm_, color, position_, &child->comm_, &config);
  return Fail(nccl_.Check(result, "ncclCommSplit", comm_));
}

absl::Status NcclCommunicator::Enqueue(absl::string_view call, absl::FunctionRef<int(NcclComm)> calls) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const Gpu::Scope scope(*gpu_);
  if (!scope.status().ok()) return Fail(scope.status());
  absl::Status status = nccl_.Check(nccl_.ncclGroupStart(), "ncclGroupStart", comm_);
  if (!status.ok()) return Fail(std::move(status));
  status = nccl_.Check(calls(comm_), call, comm_);
  // Also if a call has failed: a group that was begun must be ended.
  const int result = nccl_.ncclGroupEnd();
  status.Update(nccl_.Check(result, call, comm_));
  has_run_.store(true);
  return Fail(std::move(status));
}

absl::StatusOr<bool> NcclCommunicator::IsSettled() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return IsSettledLocked();
}

absl::Status NcclCommunicator::Look() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return IsSettledLocked().status();
}

absl::StatusOr<bool> NcclCommunicator::IsSettledLocked() {
  if (!failure_.ok()) return failure_;
  if (CommLocked() == nullptr) return false;
  int state = kNcclSuccess;
  absl::Status status = nccl_.Check(nccl_.ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  if (!status.ok()) return Fail(std::move(status));
  if (state == kNcclInProgress) return false;
  status = nccl_.Check(state, "NCCL", comm_);
  if (state == kNcclRemoteError) status = absl::AbortedError(status.message());
  if (!status.ok()) return Fail(std::move(status));
  return true;
}

absl::StatusOr<int> NcclCommunicator::ScaledSum(DType dtype, double factor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const auto found = scaled_sums_.find({dtype, factor});
  if (found != scaled_sums_.end()) return found->second;
  if (scaled_sums_.size() >= kMostScaledSums) {
    nccl_.ncclRedOpDestroy(scaled_sums_.begin()->second, comm_);
    scaled_sums_.erase(scaled_sums_.begin());
  }
  double one = 0;
  double scalar = 0;
  FillIdentity(dtype, ReduceOp::kProduct, &one, 1);
  ScaleCopy(dtype, &one, &scalar, 1, factor);
  int op = 0;
  const int result = nccl_.ncclRedOpCreatePreMulSum(&op, &scalar, NcclTypeOf(dtype), kNcclScalarHostImmediate, comm_);
  absl::Status status = nccl_.Check(result, "ncclRedOpCreatePreMulSum", comm_);
  if (!status.ok()) return Fail(std::move(status));
  scaled_sums_[{dtype, factor}] = op;
  return op;
}

void NcclCommunicator::Abort(const absl::Status& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Fail(reason).IgnoreError();
  if (CommLocked() != nullptr) EndLocked(/*in_order=*/false);
}

}  // namespace farandole
