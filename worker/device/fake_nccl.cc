#include "worker/device/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/device/fake_gpus.h"
#include "worker/dtype.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

enum class Kind { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

struct Call {
  Kind kind;
  const char* input;
  char* output;
  size_t count;
  int dtype;
  int op = 0;
  int peer = 0;  // or root
};
using Calls = std::vector<Call>;

constexpr int kInvalidUsage = 5;
// How often somebody has to ask before what was begun has settled, at most.
constexpr int kMostLooks = 4;

}  // namespace

// The ranks of one unique id. All guarded by the FakeGpus' lock.
struct FakeClique {
  int size = 0;
  int connected = 0;
  struct Round {
    std::vector<std::optional<Calls>> calls;  // by position
    int arrived = 0;
  };
  std::map<uint64_t, Round> rounds;  // collectives
  // What was sent, by sender and receiver.
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> mail;
};

namespace {

// Sends and receives, which concern pairs of ranks only.
bool IsExchange(const Calls& calls) { return calls[0].kind == Kind::kSend || calls[0].kind == Kind::kRecv; }

struct Communicator {
  std::shared_ptr<FakeClique> clique;
  int position = 0;
  int looks_left = 0;
  bool is_aborted = false;
  uint64_t rounds = 0;
  Calls begun;  // and not in the stream yet
  CudaStream stream = nullptr;
};

DType TypeOf(int dtype) {
  switch (dtype) {
    case kNcclInt8:
      return DType::kI8;
    case kNcclInt32:
      return DType::kI32;
    case kNcclInt64:
      return DType::kI64;
    case kNcclFloat16:
      return DType::kF16;
    case kNcclBfloat16:
      return DType::kBF16;
    case kNcclFloat32:
      return DType::kF32;
    case kNcclFloat64:
      return DType::kF64;
    default:
      FD_CHECK_EQ(dtype, kNcclUint8);
      return DType::kU8;
  }
}

ReduceOp OpOf(int op) {
  switch (op) {
    case kNcclProd:
      return ReduceOp::kProduct;
    case kNcclMax:
      return ReduceOp::kMax;
    case kNcclMin:
      return ReduceOp::kMin;
    case kNcclAvg:
      return ReduceOp::kAverage;
    default:
      return ReduceOp::kSum;
  }
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
thread_local Calls group_calls;

// Runs the calls of number `index` of all ranks, whose results are written when all inputs are read.
class Round {
 public:
  Round(const FakeClique::Round& round, const std::map<int, double>& scales) : scales_(scales) {
    for (const auto& calls : round.calls) ranks_.push_back(&*calls);
  }

  void Run() {
    const size_t first = ranks_[0]->size();
    for (size_t index = 0; index < first; ++index) {
      for (const Calls* calls : ranks_) CheckEqual((*ranks_[0])[index], *calls, index, first);
      Collective(index);
    }
    Write();
  }

 private:
  struct Result {
    char* to;
    std::vector<char> bytes;
  };

  static void CheckEqual(const Call& a, const Calls& calls, size_t index, size_t count) {
    FD_CHECK_EQ(calls.size(), count) << "ranks make different numbers of calls";
    const Call& b = calls[index];
    FD_CHECK(a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.peer == b.peer)
        << "ranks make different calls";
  }

  void Add(char* to, const char* from, size_t bytes) { results_.push_back({to, {from, from + bytes}}); }
  void Write() {
    for (const Result& result : results_) std::copy(result.bytes.begin(), result.bytes.end(), result.to);
  }

  std::vector<char> Reduced(size_t index, size_t count, const Call& call) {
    std::vector<const void*> inputs;
    std::vector<double> factors;
    for (const Calls* calls : ranks_) {
      inputs.push_back((*calls)[index].input);
      const auto scaled = scales_.find((*calls)[index].op);
      factors.push_back(scaled == scales_.end() ? 1.0 : scaled->second);
    }
    const DType type = TypeOf(call.dtype);
    std::vector<char> output(count * SizeOf(type));
    Reduce(type, OpOf(call.op), inputs, factors.data(), output.data(), static_cast<int64_t>(count), 1.0,
           static_cast<int>(ranks_.size()));
    return output;
  }

  void Collective(size_t index) {
    const Call& call = (*ranks_[0])[index];
    const size_t bytes = call.count * SizeOf(TypeOf(call.dtype));
    const size_t size = ranks_.size();
    std::vector<char> reduced;
    if (call.kind == Kind::kAllReduce || call.kind == Kind::kReduce) reduced = Reduced(index, call.count, call);
    if (call.kind == Kind::kReduceScatter) reduced = Reduced(index, call.count * size, call);
    for (size_t position = 0; position < size; ++position) {
      const Call& own = (*ranks_[position])[index];
      if (call.kind == Kind::kAllReduce) Add(own.output, reduced.data(), bytes);
      if (call.kind == Kind::kReduce && static_cast<int>(position) == call.peer) Add(own.output, reduced.data(), bytes);
      if (call.kind == Kind::kReduceScatter) Add(own.output, reduced.data() + position * bytes, bytes);
      if (call.kind == Kind::kBroadcast) Add(own.output, (*ranks_[call.peer])[index].input, bytes);
      for (size_t from = 0; call.kind == Kind::kAllGather && from < size; ++from) {
        Add(own.output + from * bytes, (*ranks_[from])[index].input, bytes);
      }
    }
  }

  const std::map<int, double>& scales_;
  std::vector<const Calls*> ranks_;
  std::vector<Result> results_;
};

}  // namespace

// The functions behind NCCL's table.
struct FakeNcclCalls {
  static int GetVersion(int* version) {
    *version = 23007;
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
    std::shared_ptr<FakeClique>& clique = fake.cliques_[number];
    if (clique == nullptr) clique = std::make_shared<FakeClique>();
    clique->size = ranks;
    ++clique->connected;
    auto shared = std::make_shared<Communicator>();
    shared->clique = clique;
    shared->position = rank;
    shared->looks_left = 1 + static_cast<int>(fake.random_() % kMostLooks);
    ++fake.communicators_;
    *comm = new ncclComm{std::move(shared)};
    return kNcclInProgress;
  }
  static int End(NcclComm comm, const char* call) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (const int failure = fake.Enter(call); failure != 0) return failure;
    comm->shared->is_aborted = true;
    --fake.communicators_;
    delete comm;
    return 0;
  }
  static int Finalize(NcclComm) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    return fake.Enter("ncclCommFinalize");
  }
  static int Destroy(NcclComm comm) { return End(comm, "ncclCommDestroy"); }
  static int Abort(NcclComm comm) { return End(comm, "ncclCommAbort"); }

  static int AsyncError(NcclComm comm, int* state) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    Communicator& own = *comm->shared;
    const bool is_connected = own.clique->connected == own.clique->size;
    *state = fake.broken_;
    if (fake.broken_ != 0) return 0;
    if (!is_connected || --own.looks_left > 0) {
      *state = kNcclInProgress;
      return 0;
    }
    own.looks_left = 0;
    if (own.begun.empty()) return 0;
    const Calls calls = std::exchange(own.begun, {});
    if (IsExchange(calls)) {
      fake.Push(own.stream, [&fake, shared = comm->shared, calls, has_sent = false]() mutable {
        return ExchangeInStream(fake, *shared, calls, &has_sent);
      });
    } else {
      fake.Push(own.stream, [&fake, shared = comm->shared, calls, round = ++own.rounds] {
        return RunInStream(fake, *shared, calls, round);
      });
    }
    return 0;
  }

  // Locked, on the streams' thread.
  static bool ExchangeInStream(FakeGpus& fake, Communicator& own, const Calls& calls, bool* has_sent) {
    if (own.is_aborted) return true;
    if (fake.hangs_) return false;
    auto& mail = own.clique->mail;
    std::map<int, size_t> wanted;
    for (const Call& call : calls) {
      if (call.kind == Kind::kRecv) ++wanted[call.peer];
      if (call.kind == Kind::kSend && !*has_sent)
        mail[{own.position, call.peer}].emplace_back(call.input, call.input + call.count * SizeOf(TypeOf(call.dtype)));
    }
    *has_sent = true;
    for (const auto& [peer, count] : wanted) {
      if (mail[{peer, own.position}].size() < count) return false;
    }
    for (const Call& call : calls) {
      if (call.kind != Kind::kRecv) continue;
      auto& queue = mail[{call.peer, own.position}];
      FD_CHECK_EQ(queue.front().size(), call.count * SizeOf(TypeOf(call.dtype))) << "a receive of another size";
      std::memcpy(call.output, queue.front().data(), queue.front().size());
      queue.pop_front();
    }
    return true;
  }

  // Locked, on the streams' thread.
  static bool RunInStream(FakeGpus& fake, Communicator& own, const Calls& calls, uint64_t number) {
    if (own.is_aborted) return true;
    if (fake.hangs_) return false;
    FakeClique::Round& round = own.clique->rounds[number];
    round.calls.resize(own.clique->size);
    if (!round.calls[own.position].has_value()) {
      round.calls[own.position] = calls;
      if (++round.arrived == own.clique->size) Round(round, fake.scales_).Run();
    }
    return round.arrived == own.clique->size;
  }

  static const char* ErrorString(int result) { return result == kNcclRemoteError ? "remote process exited" : "failed"; }
  static const char* LastError(NcclComm) { return ""; }

  static int MakeSum(int* op, void* scalar, int dtype, int residence, NcclComm) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    FD_CHECK_EQ(residence, kNcclScalarHostImmediate);
    double factor = 0;
    if (dtype == kNcclFloat32) {
      float value;
      std::memcpy(&value, scalar, sizeof(value));
      factor = value;
    } else {
      FD_CHECK_EQ(dtype, kNcclFloat64) << "the fake scales no other types";
      std::memcpy(&factor, scalar, sizeof(factor));
    }
    *op = ++fake.last_op_;
    fake.scales_[*op] = factor;
    return fake.Enter("ncclRedOpCreatePreMulSum");
  }
  static int DropSum(int, NcclComm) { return 0; }

  static int Submit(const char* name, const Call& call, NcclComm comm, CudaStream stream) {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    if (!IsInFakeContext() || group_depth != 1) return kInvalidUsage;
    if (const int failure = fake.Enter(name); failure != 0) return failure;
    group_target = {comm, stream};
    group_calls.push_back(call);
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

  static int GroupStart() {
    ++group_depth;
    return 0;
  }
  static int GroupEnd() {
    FakeGpus& fake = TheFakeGpus();
    const std::lock_guard<std::mutex> lock(fake.mutex_);
    --group_depth;
    const Calls calls = std::exchange(group_calls, {});
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
}

}  // namespace farandole
