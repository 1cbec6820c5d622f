#include "worker/device/nccl/nccl_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/gpu_batch.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

// The inputs' memory where one lies behind the other, so that all are one; else null. Empty fragments lie nowhere.
const char* InputsAsOne(const Collective& collective, int64_t element_bytes) {
  const char* begin = nullptr;
  const char* end = nullptr;
  for (const Fragment& fragment : collective.fragments) {
    if (fragment.count == 0) continue;
    if (begin != nullptr && fragment.input != end) return nullptr;
    const auto* input = static_cast<const char*>(fragment.input);
    if (begin == nullptr) begin = input;
    end = input + fragment.count * element_bytes;
  }
  return begin;
}

// Whether the one fragment's count is that of its input, and its output has another.
bool Gathers(const Collective& collective) {
  return collective.op == OpType::kAllgather || collective.op == OpType::kAlltoall;
}

// The fragments that receive something.
std::vector<Fragment> Delivered(const Collective& collective) {
  std::vector<Fragment> delivered;
  for (const Fragment& fragment : collective.fragments) {
    Fragment part = fragment;
    if (part.output == nullptr) part.output = collective.gpu_batch->result.data();
    if (part.output != nullptr && (part.count > 0 || Gathers(collective))) delivered.push_back(part);
  }
  return delivered;
}

int64_t OutputElements(const Collective& collective) {
  return collective.op == OpType::kReducescatter ? collective.counts[collective.position] : collective.count;
}

bool AllEqual(absl::Span<const int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

// A factor of 1 moves bytes.
absl::Status Move(absl::Span<const GpuCopy> copies, DType dtype, double factor, Gpu& gpu, CudaStream stream) {
  if (factor == 1.0) return gpu.CopyAll(copies, stream);
  return gpu.ScaleAll(copies, dtype, factor, stream);
}

// Until one fails.
class CallRun {
 public:
  void Add(int result) {
    if (result_ == kNcclSuccess || result_ == kNcclInProgress) result_ = result;
  }
  int result() const { return result_; }

 private:
  int result_ = kNcclSuccess;
};

}  // namespace

bool NcclCalls::PacksInput(const Collective& collective) const {
  if (Gathers(collective)) return false;
  // A rank that has joined contributes the identity of a reduction.
  if (!collective.contributes) return Reduces(collective.op);
  if (collective.op == OpType::kBroadcast && collective.position != collective.root) return false;
  return plan_.prescale != 1.0 || InputsAsOne(collective, element_bytes_) == nullptr;
}

absl::StatusOr<NcclReduction> NcclCalls::Plan(const Collective& collective) {
  if (!Reduces(collective.op)) return NcclReduction();
  return PlanNcclReduction(collective.dtype, collective.reduce_op, collective.prescale, collective.postscale,
                           static_cast<int>(collective.ranks.size()));
}

absl::Status NcclCalls::Prepare(const Collective& collective, NcclCommunicator& communicator) {
  const std::shared_ptr<Gpu>& gpu = communicator.shared_gpu();
  stream_ = communicator.StreamOf(*collective.gpu_batch);
  element_bytes_ = static_cast<int64_t>(SizeOf(collective.dtype));
  GpuBatch& batch = *collective.gpu_batch;
  if (batch.result_bytes > 0) {
    absl::StatusOr<GpuMemory> result = GpuMemory::Allocate(gpu, batch.result_bytes, stream_);
    if (!result.ok()) return result.status();
    batch.result = *std::move(result);
  }
  const int parts = collective.op == OpType::kReducescatter ? 2 : 1;
  const size_t bytes = static_cast<size_t>(collective.count * element_bytes_ * parts);
  // By facts that all ranks know alike. A graph may run beside anything else, and so has memory of its own.
  if (batch.is_fused && !batch.is_captured && communicator.HasFusionMemory(bytes))
    return PrepareFused(collective, communicator, bytes);
  return PrepareAlone(collective, *gpu);
}

absl::Status NcclCalls::PrepareFused(const Collective& collective, NcclCommunicator& communicator, size_t bytes) {
  const absl::StatusOr<char*> memory = communicator.FusionMemory(bytes);
  if (!memory.ok()) return memory.status();
  const bool is_root = collective.op == OpType::kBroadcast && collective.position == collective.root;
  packs_output_ = true;
  packed_input_ = *memory;
  input_ = *memory;
  output_ = *memory + (collective.op == OpType::kReducescatter ? collective.count * element_bytes_ : 0);
  return Reduces(collective.op) || is_root ? Pack(collective, communicator.gpu()) : absl::OkStatus();
}

absl::Status NcclCalls::PrepareAlone(const Collective& collective, Gpu& gpu) {
  const bool packs_input = PacksInput(collective);
  const std::vector<Fragment> delivered = Delivered(collective);
  const bool has_one_output = delivered.size() == 1;
  packs_output_ = !has_one_output;
  const int64_t input_bytes = packs_input ? collective.count * element_bytes_ : 0;
  const int64_t output_bytes = packs_output_ ? OutputElements(collective) * element_bytes_ : 0;
  // Inputs are packed where the result of as many elements will lie: in the one output, or where outputs are packed.
  const bool is_in_place = packs_input && collective.op != OpType::kReducescatter;
  const int64_t place_bytes = has_one_output ? 0 : std::max(input_bytes, output_bytes);
  const size_t bytes = static_cast<size_t>(is_in_place ? place_bytes : input_bytes + output_bytes);
  absl::StatusOr<GpuMemory> packed = GpuMemory::Allocate(gpu.shared_from_this(), bytes, stream_);
  if (!packed.ok()) return packed.status();
  own_packed_ = *std::move(packed);
  output_ =
      has_one_output ? static_cast<char*>(delivered[0].output) : own_packed_.data() + (is_in_place ? 0 : input_bytes);
  packed_input_ = is_in_place ? output_ : own_packed_.data();
  input_ = packs_input ? packed_input_ : InputsAsOne(collective, element_bytes_);
  return packs_input ? Pack(collective, gpu) : absl::OkStatus();
}

absl::Status NcclCalls::Pack(const Collective& collective, Gpu& gpu) {
  char* to = packed_input_;
  if (!collective.contributes) {
    std::string identity(static_cast<size_t>(element_bytes_), '\0');
    FillIdentity(collective.dtype, collective.reduce_op, identity.data(), 1);
    return gpu.Fill(to, identity, static_cast<size_t>(collective.count), stream_);
  }
  std::vector<GpuCopy> copies;
  for (const Fragment& fragment : collective.fragments) {
    copies.push_back({to, fragment.input, static_cast<size_t>(fragment.count * element_bytes_)});
    to += copies.back().bytes;
  }
  return Move(copies, collective.dtype, plan_.prescale, gpu, stream_);
}

absl::Status NcclCalls::Deliver(const Collective& collective, Gpu& gpu) {
  absl::Status status = packs_output_ || plan_.postscale != 1.0 ? Unpack(collective, gpu) : absl::OkStatus();
  // Now, since nothing of a graph may follow the event by which the collective is said to be done.
  own_packed_ = GpuMemory();
  return status;
}

absl::Status NcclCalls::Unpack(const Collective& collective, Gpu& gpu) {
  const char* from = output_;
  std::vector<GpuCopy> copies;
  for (const Fragment& fragment : Delivered(collective)) {
    copies.push_back({fragment.output, from, static_cast<size_t>(fragment.count * element_bytes_)});
    from += copies.back().bytes;
  }
  return Move(copies, collective.dtype, plan_.postscale, gpu, stream_);
}

absl::Status NcclCalls::Enqueue(const Collective& collective, NcclCommunicator& communicator) {
  absl::StatusOr<NcclReduction> plan = Plan(collective);
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  if (absl::Status status = Prepare(collective, communicator); !status.ok()) return status;
  switch (collective.op) {
    case OpType::kAllreduce:
    case OpType::kReducescatter:
      return Reduction(collective, communicator);
    case OpType::kBroadcast:
      return Broadcast(collective, communicator);
    case OpType::kAllgather:
      return Allgather(collective, communicator);
    case OpType::kAlltoall:
      return Alltoall(collective, communicator);
    default:
      break;
  }
  return absl::InternalError(absl::StrCat("op ", static_cast<int>(collective.op), " has no tensors on a GPU"));
}

absl::Status NcclCalls::Reduction(const Collective& collective, NcclCommunicator& communicator) {
  // A rank that has joined was not asked before.
  const NcclPlace place = {communicator.nccl().version, communicator.gpu().capability()};
  if (absl::Status status = CheckNcclType(collective.dtype, place); !status.ok()) return status;
  absl::StatusOr<int> op = plan_.op;
  if (plan_.factor != 1.0) op = communicator.ScaledSum(collective.dtype, plan_.factor);
  if (!op.ok()) return op.status();
  const NcclLibrary& nccl = communicator.nccl();
  const int type = NcclTypeOf(collective.dtype);
  if (collective.op == OpType::kAllreduce) {
    return communicator.Enqueue("ncclAllReduce", [&](NcclComm comm) {
      return nccl.ncclAllReduce(input_, output_, collective.count, type, *op, comm, stream_);
    });
  }
  if (AllEqual(collective.counts)) {
    return communicator.Enqueue("ncclReduceScatter", [&](NcclComm comm) {
      return nccl.ncclReduceScatter(input_, output_, collective.counts[0], type, *op, comm, stream_);
    });
  }
  return communicator.Enqueue("ncclReduce", [&](NcclComm comm) {
    CallRun run;
    const char* input = input_;
    for (size_t position = 0; position < collective.counts.size(); ++position) {
      const int64_t count = collective.counts[position];
      if (count > 0)
        run.Add(nccl.ncclReduce(input, output_, count, type, *op, static_cast<int>(position), comm, stream_));
      input += count * element_bytes_;
    }
    return run.result();
  });
}

// The operations from here on move bytes, of any type.

absl::Status NcclCalls::Broadcast(const Collective& collective, NcclCommunicator& communicator) {
  const NcclLibrary& nccl = communicator.nccl();
  return communicator.Enqueue("ncclBroadcast", [&](NcclComm comm) {
    return nccl.ncclBroadcast(input_, output_, collective.count * element_bytes_, kNcclUint8, collective.root, comm,
                              stream_);
  });
}

absl::Status NcclCalls::Allgather(const Collective& collective, NcclCommunicator& communicator) {
  const NcclLibrary& nccl = communicator.nccl();
  if (AllEqual(collective.counts)) {
    return communicator.Enqueue("ncclAllGather", [&](NcclComm comm) {
      return nccl.ncclAllGather(input_, output_, collective.counts[0] * element_bytes_, kNcclUint8, comm, stream_);
    });
  }
  return communicator.Enqueue("ncclBroadcast", [&](NcclComm comm) {
    CallRun run;
    char* output = output_;
    for (size_t position = 0; position < collective.counts.size(); ++position) {
      const size_t bytes = static_cast<size_t>(collective.counts[position] * element_bytes_);
      if (bytes > 0)
        run.Add(nccl.ncclBroadcast(input_, output, bytes, kNcclUint8, static_cast<int>(position), comm, stream_));
      output += bytes;
    }
    return run.result();
  });
}

absl::Status NcclCalls::Alltoall(const Collective& collective, NcclCommunicator& communicator) {
  const NcclLibrary& nccl = communicator.nccl();
  return communicator.Enqueue("ncclSend and ncclRecv", [&](NcclComm comm) {
    CallRun run;
    const char* input = input_;
    char* output = output_;
    for (size_t position = 0; position < collective.counts.size(); ++position) {
      const int peer = static_cast<int>(position);
      const size_t sent = static_cast<size_t>(collective.sent_counts[position] * element_bytes_);
      const size_t received = static_cast<size_t>(collective.counts[position] * element_bytes_);
      if (sent > 0) run.Add(nccl.ncclSend(input, sent, kNcclUint8, peer, comm, stream_));
      if (received > 0) run.Add(nccl.ncclRecv(output, received, kNcclUint8, peer, comm, stream_));
      input += sent;
      output += received;
    }
    return run.result();
  });
}

}  // namespace farandole
