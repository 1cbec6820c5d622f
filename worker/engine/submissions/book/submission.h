#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "worker/core/collective.h"
#include "worker/device/gpu.h"
#include "worker/measure/flight_page.h"

namespace farandole {

// One tensor of a request. Borrowed.
struct TensorView {
  const void* input = nullptr;
  void* output = nullptr;
  absl::Span<const int64_t> shape;
};

// One tensor of a grouped call that takes several submissions, as the first of them states it to the other ranks.
struct GroupMember {
  DType dtype;
  bool is_on_gpu;
  absl::InlinedVector<int64_t, 4> dims;
};

// A caller's request. Borrowed for the call, but the tensors' memory until the submission is complete.
struct Request {
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  // The root, a rank of the epoch, if the op has one.
  int root_rank = 0;
  // Alltoall: rows for each position of the group; empty: equally many.
  absl::Span<const int64_t> splits;
  uint32_t group = 0;
  // Empty: unnamed.
  absl::string_view name;
  absl::Span<const TensorView> tensors;
  // Not null: the first submission of a grouped call that takes several. It states all of the call's tensors.
  const std::vector<GroupMember>* members = nullptr;
  // Not 0: a further submission of such a call; the first has this handle. The table holds it until the first is
  // complete, and fails it if the first fails.
  int64_t after = 0;
  // Not null: the tensors lie in the memory of this GPU. After the event `ready` they may be read and written.
  std::shared_ptr<Gpu> gpu;
  GpuEvent ready;
  // The version of the NCCL that moves them, as NcclLibrary::version.
  int nccl_version = 0;
};

// An allreduce of one tensor in the host's memory, under a name, as a caller gives it.
struct NamedAllreduce {
  absl::string_view name;
  const void* input = nullptr;
  void* output = nullptr;
  absl::Span<const int64_t> shape;
  int32_t dtype = 0;
  int32_t reduce_op = 0;
  int32_t group = 0;
  double prescale = 1.0;
  double postscale = 1.0;

  // A key made of the name's length, its first and its last 8 bytes, in which most names of a program differ.
  static uint64_t KeyOf(absl::string_view name) {
    uint64_t first = 0;
    uint64_t last = 0;
    const size_t bytes = std::min(name.size(), sizeof(last));
    std::memcpy(&first, name.data(), bytes);
    std::memcpy(&last, name.data() + name.size() - bytes, bytes);
    return last ^ first * 0x9e3779b97f4a7c15 ^ (name.size() + 1) << 48;
  }
};

// A request on its way. Owned by SubmissionBook, whose lock guards it; while it runs, what the collective needs is
// read, and its result is written, by the thread that has the engine's role.
struct Submission {
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  // The root's position in the group, if the op has a root.
  int root = 0;
  uint32_t group = 0;
  std::string name;
  // A reducescatter has one for each position, unless it is empty.
  absl::InlinedVector<Fragment, 1> fragments;
  // The tensors' shapes one after the other, and the number of dimensions of each.
  absl::InlinedVector<int64_t, 8> dims;
  absl::InlinedVector<int32_t, 1> ndims;
  // As in Request. `states_group` is also set if the call has no tensor.
  bool states_group = false;
  std::vector<GroupMember> members;
  int64_t after = 0;
  // Elements of this rank's input, all tensors together.
  int64_t count = 0;
  uint64_t signature = 0;
  // How often all ranks had joined before.
  uint32_t joins = 0;
  // In a dispute: the number of ranks that have a submission in the disputed slot.
  uint32_t disputants = 0;
  // By the monotonic clock. `started_ns` is the beginning of its batch, kept for a timeline only; 0: not begun, or part
  // of no batch.
  int64_t submitted_ns = 0;
  int64_t started_ns = 0;
  // 0: no profiler is attached.
  uint64_t profiler_range = 0;

  // Alltoall: rows for each position.
  absl::InlinedVector<int64_t, 8> splits;
  // Where the op allocates it: the result, and its rows by the group position that they come from.
  std::unique_ptr<char[]> result;
  int64_t result_bytes = 0;
  std::vector<int64_t> rows_by_position;

  // As in Request. On a GPU, a result that the op allocates is `gpu_result`. `complete` then means only that the work
  // is enqueued; it is finished when the event `done` has occurred.
  std::shared_ptr<Gpu> gpu;
  GpuEvent ready;
  GpuEvent done;
  GpuMemory gpu_result;

  int64_t handle = 0;
  bool in_use = false;
  uint32_t slot = 0;  // 0: not posted yet
  bool running = false;
  bool released = false;
  int waiters = 0;
  // Set last, after `status`; then nothing but release changes the submission.
  std::atomic<bool> complete{false};
  // Its record in the table of flights.
  FlightRecord* flight = nullptr;
  absl::Status status;

  int64_t bytes() const { return count * static_cast<int64_t>(SizeOf(dtype)); }
  // Where the op has to do with rows: those of this rank, and elements of a row.
  int64_t rows() const { return dims.empty() ? 0 : dims[0]; }
  int64_t row_elements() const {
    int64_t elements = 1;
    for (size_t dim = 1; dim < dims.size(); ++dim) elements *= dims[dim];
    return elements;
  }
};

// Whether the submission is of this allreduce, wherever its tensor lies. The numbers of `call` need not be valid.
bool IsOf(const NamedAllreduce& call, const Submission& submission);

// Hash of everything that the ranks of a group must agree about; the same in every process.
uint64_t SignatureOf(const Submission& submission);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_H_
