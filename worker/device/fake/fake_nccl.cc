#include "worker/device/fake/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/device/fake/fake_clique.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/device/fake/fake_graph.h"
#include "worker/kernels/half.h"

namespace farandole {
namespace {

using Kind = FakeNcclCall::Kind;

constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr uint64_t kNobodysId = 0;
// How many queries it takes, at most, until a call that was begun has settled.
constexpr int kMostLooks = 4;

// Sends and receives, which concern pairs of ranks only.
bool IsExchange(const FakeNcclWork& calls) { return calls[0].kind == Kind::kSend || calls[0].kind == Kind::kRecv; }

// A communicator that a split is to make.
struct Child {
  uint64_t split = 0;  // its number
  int color = 0;
  NcclComm* made = nullptr;
};

struct Communicator {
  uint64_t id = 0;
  std::shared_ptr<FakeClique> clique;
  int position = 0;
  int looks_left = 0;
  bool is_aborted = false;
  bool is_finalized = false;
  uint64_t rounds = 0;
  uint64_t splits = 0;
  std::optional<Child> child;     // that is not made yet
  CudaStream splitter = nullptr;  // NCCL's thread that makes it
  FakeNcclWork begun;             // and not in the stream yet
  CudaStream stream = nullptr;
  int graphs = 0;                            // in which its calls are
  std::map<const char*, size_t> registered;  // and how many bytes
};

bool IsRegistered(const Communicator& communicator, const char* memory) {
  const auto behind = communicator.registered.upper_bound(memory);
  if (behind == communicator.registered.begin()) return false;
  const auto& [begin, bytes] = *std::prev(behind);
  return memory < begin + bytes;
}

double ScalarOf(int dtype, const void* scalar) {
  if (dtype == kNcclFloat64) {
    double value;
    std::memcpy(&value, scalar, sizeof(value));
    return value;
  }
  if (dtype == kNcclFloat32) {
    float value;
    std::memcpy(&value, scalar, sizeof(value));
    return value;
  }
  uint16_t value;
  std::memcpy(&value, scalar, sizeof(value));
  float wide = 0;
  dtype == kNcclFloat16 ? F16ToF32(&value, &wide, 1) : BF16ToF32(&value, &wide, 1);
  return wide;
}

}  // namespace
}  // namespace farandole

struct ncclComm {
  std::shared_ptr<farandole::Communicator> shared;
};

namespace farandole {
namespace {

thread_local int group_depth = 0;
thread_local std::pair<NcclComm, CudaStream> group_target;
thread_local FakeNcclWork group_calls;
thread_local std::vector<NcclComm> group_ends;

}  // namespace

// The functions behind NCCL's table.
struct FakeNcclCalls {
  static int GetVersion(int* version) {
    *version = TheFakeGpus().nccl_.version;
    return 0;
  }
  static int UniqueId(NcclUniqueId* id) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter("ncclGetUniqueId"); failure != 0) return failure;
    const uint64_t number = ++fake.last_id_;
    std::memcpy(id->internal, &number, sizeof(number));
    return 0;
  }
  static int Init(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (!IsInFakeContext() || config->blocking != 0) return kInvalidUsage;
    if (const int failure = fake.Enter("ncclCommInitRankConfig"); failure != 0) return failure;
    uint64_t number = 0;
    std::memcpy(&number, id.internal, sizeof(number));
    *comm = Make(fake, number, ranks, rank);
    return kNcclInProgress;
  }
  static NcclComm Make(FakeGpus& fake, uint64_t id, int ranks, int rank) {
    std::shared_ptr<FakeClique>& clique = fake.cliques_[id];
    if (clique == nullptr) {
      clique = fake.directory_.empty() ? std::make_shared<FakeClique>(ranks)
                                       : std::make_shared<FakeClique>(ranks, fake.directory_, id);
    }
    clique->Connect(rank);
    auto shared = std::make_shared<Communicator>();
    shared->id = id;
    shared->clique = clique;
    shared->position = rank;
    shared->looks_left = 1 + static_cast<int>(fake.random_() % kMostLooks);
    ++fake.communicators_;
    return new ncclComm{std::move(shared)};
  }
  static int Split(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    Communicator& own = *comm->shared;
    if (!IsInFakeContext() || config->blocking != 0) return kInvalidUsage;
    if (const int failure = fake.Enter("ncclCommSplit"); failure != 0) return failure;
    // It wants nothing outstanding, and is known here with the order of ranks kept.
    const bool is_idle = own.begun.empty() && (own.stream == nullptr || own.stream->tasks.empty());
    if (!is_idle || own.child.has_value() || own.looks_left > 0 || key != own.position) return kInvalidUsage;
    FD_CHECK_GE(color, 0) << "NCCL crashes ranks without a color where a split fails";
    *made = nullptr;
    own.child = Child{++own.splits, color, made};
    own.clique->Split(own.splits, own.position, color);
    if (own.splitter == nullptr) own.splitter = *fake.streams_.insert(new CUstream_st).first;
    fake.Push(own.splitter, [&fake, shared = comm->shared] { return MakeChild(fake, *shared); });
    return kNcclInProgress;
  }
  // Whether there is nothing more to make.
  static bool MakeChild(FakeGpus& fake, Communicator& own) {
    if (!own.child.has_value()) return true;
    if (fake.holds_splits_) return false;
    const std::optional<std::vector<int>> colors = own.clique->ColorsOf(own.child->split);
    if (!colors.has_value()) return false;
    const Child child = *std::exchange(own.child, std::nullopt);
    const auto before = colors->begin() + own.position;
    const auto ranks = static_cast<int>(std::count(colors->begin(), colors->end(), child.color));
    const auto rank = static_cast<int>(std::count(colors->begin(), before, child.color));
    // The same on all ranks, and no unique id.
    const uint64_t id = ~((own.id * 1000 + child.split) * 1000 + static_cast<uint64_t>(child.color));
    __atomic_store_n(child.made, Make(fake, id, ranks, rank), __ATOMIC_RELEASE);
    return true;
  }
  static int End(NcclComm comm, const char* call) {
    FakeGpus& fake = TheFakeGpus();
    std::unique_lock<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter(call); failure != 0) return failure;
    Communicator& own = *comm->shared;
    own.is_aborted = true;
    // A communicator that a split has begun is then there, and of no use.
    const std::optional<Child> child = std::exchange(own.child, std::nullopt);
    if (child.has_value())
      __atomic_store_n(child->made, Make(fake, kNobodysId, own.clique->size(), 0), __ATOMIC_RELEASE);
    group_ends.push_back(comm);
    return group_depth > 0 ? 0 : EndAll(lock);
  }
  // As NCCL: communicators that graphs hold live as long as the graphs, and it waits for the work in the streams.
  static int EndAll(std::unique_lock<std::mutex>& lock) {
    if (!group_ends.empty() && !IsInFakeContext()) return kInvalidUsage;
    FakeGpus& fake = TheFakeGpus();
    for (const NcclComm comm : std::exchange(group_ends, {})) {
      const Communicator& own = *comm->shared;
      while (own.graphs > 0 || (own.stream != nullptr && !own.stream->tasks.empty())) fake.changed_.wait(lock);
      --fake.communicators_;
      delete comm;
    }
    return 0;
  }
  static int Finalize(NcclComm comm) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter("ncclCommFinalize"); failure != 0) return failure;
    comm->shared->is_finalized = true;
    return comm->shared->graphs > 0 ? kNcclInProgress : kNcclSuccess;
  }
  static int Destroy(NcclComm comm) { return End(comm, "ncclCommDestroy"); }
  static int Abort(NcclComm comm) {
    FakeGpus& fake = TheFakeGpus();
    {
      const std::lock_guard<std::mutex> lock(fake.mutex_);
      fake.are_full_ = false;
      fake.changed_.notify_all();
    }
    return End(comm, "ncclCommAbort");
  }

  static int AsyncError(NcclComm comm, int* state) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    Communicator& own = *comm->shared;
    const bool is_connected = own.clique->IsConnected();
    *state = fake.broken_;
    if (fake.broken_ != 0) return 0;
    if (own.is_finalized) {
      *state = own.graphs > 0 ? kNcclInProgress : kNcclSuccess;
      return 0;
    }
    if (!is_connected || --own.looks_left > 0 || own.child.has_value()) {
      *state = kNcclInProgress;
      return 0;
    }
    own.looks_left = 0;
    if (own.begun.empty()) return 0;
    const FakeNcclWork calls = std::exchange(own.begun, {});
    if (own.stream->graph != nullptr) {
      ++own.graphs;
      own.stream->graph->holds().push_back([shared = comm->shared] { --shared->graphs; });
    }
    if (IsExchange(calls)) {
      fake.Push(own.stream, [&fake, shared = comm->shared, calls, has_sent = false]() mutable {
        if (shared->is_aborted) return true;
        return !fake.hangs_ && shared->clique->Exchange(shared->position, calls, &has_sent);
      });
    } else {
      fake.PushMade(own.stream, [&fake, shared = comm->shared, calls] {
        return [&fake, shared, calls, round = ++shared->rounds] {
          if (shared->is_aborted) return true;
          return !fake.hangs_ && shared->clique->Collect(shared->position, round, calls);
        };
      });
    }
    return 0;
  }

  static const char* ErrorString(int result) { return result == kNcclRemoteError ? "remote process exited" : "failed"; }
  static const char* LastError(NcclComm) { return ""; }

  static int MakeSum(int* op, void* scalar, int dtype, int residence, NcclComm) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    FD_CHECK_EQ(residence, kNcclScalarHostImmediate);
    *op = ++fake.last_op_;
    fake.scales_[*op] = ScalarOf(dtype, scalar);
    return fake.Enter("ncclRedOpCreatePreMulSum");
  }
  static int DropSum(int, NcclComm) { return 0; }

  static int Submit(const char* name, const FakeNcclCall& call, NcclComm comm, CudaStream stream) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (!IsInFakeContext() || group_depth != 1) return kInvalidUsage;
    if (const int failure = fake.Enter(name); failure != 0) return failure;
    const bool is_float8 = call.dtype == kNcclFloat8E4M3 || call.dtype == kNcclFloat8E5M2;
    if (is_float8 && (fake.nccl_.version < 22400 || fake.capability_ < 90)) return kInvalidArgument;
    group_target = {comm, stream};
    group_calls.push_back(call);
    group_calls.back().is_registered[0] = IsRegistered(*comm->shared, call.input);
    group_calls.back().is_registered[1] = IsRegistered(*comm->shared, call.output);
    const auto scaled = fake.scales_.find(call.op);
    if (scaled != fake.scales_.end()) {
      group_calls.back().op = kNcclSum;
      group_calls.back().factor = scaled->second;
    }
    return 0;
  }
  static int AllReduce(const void* input, void* output, size_t count, int dtype, int op, NcclComm comm,
                       CudaStream stream) {
    return Submit("ncclAllReduce", {Kind::kAllReduce, Bytes(input), Bytes(output), count, dtype, op}, comm, stream);
  }
  static int Reduce(const void* input, void* output, size_t count, int dtype, int op, int root, NcclComm comm,
                    CudaStream stream) {
    return Submit("ncclReduce", {Kind::kReduce, Bytes(input), Bytes(output), count, dtype, op, root}, comm, stream);
  }
  static int ReduceScatter(const void* input, void* output, size_t count, int dtype, int op, NcclComm comm,
                           CudaStream stream) {
    return Submit("ncclReduceScatter", {Kind::kReduceScatter, Bytes(input), Bytes(output), count, dtype, op}, comm,
                  stream);
  }
  static int AllGather(const void* input, void* output, size_t count, int dtype, NcclComm comm, CudaStream stream) {
    return Submit("ncclAllGather", {Kind::kAllGather, Bytes(input), Bytes(output), count, dtype}, comm, stream);
  }
  static int Broadcast(const void* input, void* output, size_t count, int dtype, int root, NcclComm comm,
                       CudaStream stream) {
    return Submit("ncclBroadcast", {Kind::kBroadcast, Bytes(input), Bytes(output), count, dtype, 0, root}, comm,
                  stream);
  }
  static int Send(const void* input, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
    return Submit("ncclSend", {Kind::kSend, Bytes(input), nullptr, count, dtype, 0, peer}, comm, stream);
  }
  static int Recv(void* output, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
    return Submit("ncclRecv", {Kind::kRecv, nullptr, Bytes(output), count, dtype, 0, peer}, comm, stream);
  }
  static const char* Bytes(const void* memory) { return static_cast<const char*>(memory); }
  static char* Bytes(void* memory) { return static_cast<char*>(memory); }

  static int MemAlloc(void** memory, size_t bytes) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (!IsInFakeContext()) return kInvalidUsage;
    if (const int failure = fake.Enter("ncclMemAlloc"); failure != 0) return failure;
    auto block = std::make_unique<std::vector<char>>(bytes, '\xcd');
    *memory = block->data();
    fake.memory_[reinterpret_cast<uintptr_t>(*memory)] = std::move(block);
    return 0;
  }
  // At once, with work still enqueued.
  static int MemFree(void* memory) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter("ncclMemFree"); failure != 0) return failure;
    return fake.memory_.erase(reinterpret_cast<uintptr_t>(memory)) == 1 ? 0 : kInvalidUsage;
  }
  static int Register(NcclComm comm, void* memory, size_t bytes, void** handle) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter("ncclCommRegister"); failure != 0) return failure;
    const auto found = fake.memory_.find(reinterpret_cast<uintptr_t>(memory));
    if (found == fake.memory_.end() || found->second->size() < bytes) return kInvalidUsage;
    comm->shared->registered[static_cast<const char*>(memory)] = bytes;
    *handle = memory;
    return 0;
  }

  static int GroupStart() {
    ++group_depth;
    return 0;
  }
  static int GroupEnd() {
    FakeGpus& fake = TheFakeGpus();
    std::unique_lock<std::mutex> lock(fake.mutex_);
    if (--group_depth == 0 && !group_ends.empty()) return EndAll(lock);
    const FakeNcclWork calls = std::exchange(group_calls, {});
    if (calls.empty()) return 0;
    Communicator& own = *group_target.first->shared;
    if (!own.begun.empty()) return kInvalidUsage;  // the last calls have not settled
    own.begun = calls;
    own.stream = group_target.second;
    own.looks_left = 1 + static_cast<int>(fake.random_() % kMostLooks);
    return kNcclInProgress;
  }
};

void FillFakeNccl(NcclLibrary* nccl) {
  nccl->version = 23007;
  nccl->ncclGetVersion = FakeNcclCalls::GetVersion;
  nccl->ncclGetUniqueId = FakeNcclCalls::UniqueId;
  nccl->ncclCommInitRankConfig = FakeNcclCalls::Init;
  nccl->ncclCommSplit = FakeNcclCalls::Split;
  nccl->ncclCommFinalize = FakeNcclCalls::Finalize;
  nccl->ncclCommDestroy = FakeNcclCalls::Destroy;
  nccl->ncclCommAbort = FakeNcclCalls::Abort;
  nccl->ncclCommGetAsyncError = FakeNcclCalls::AsyncError;
  nccl->ncclGetErrorString = FakeNcclCalls::ErrorString;
  nccl->ncclGetLastError = FakeNcclCalls::LastError;
  nccl->ncclRedOpCreatePreMulSum = FakeNcclCalls::MakeSum;
  nccl->ncclRedOpDestroy = FakeNcclCalls::DropSum;
  nccl->ncclAllReduce = FakeNcclCalls::AllReduce;
  nccl->ncclReduce = FakeNcclCalls::Reduce;
  nccl->ncclReduceScatter = FakeNcclCalls::ReduceScatter;
  nccl->ncclAllGather = FakeNcclCalls::AllGather;
  nccl->ncclBroadcast = FakeNcclCalls::Broadcast;
  nccl->ncclSend = FakeNcclCalls::Send;
  nccl->ncclRecv = FakeNcclCalls::Recv;
  nccl->ncclGroupStart = FakeNcclCalls::GroupStart;
  nccl->ncclGroupEnd = FakeNcclCalls::GroupEnd;
  nccl->ncclMemAlloc = FakeNcclCalls::MemAlloc;
  nccl->ncclMemFree = FakeNcclCalls::MemFree;
  nccl->ncclCommRegister = FakeNcclCalls::Register;
}

}  // namespace farandole
