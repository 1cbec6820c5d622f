#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULE_OPERATION_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/collectives/schedules/schedule.h"
#include "worker/kernels/adasum.h"
#include "worker/transport/transport.h"

namespace farandole {

// Runs this rank's schedule of a collective over any transport. Owned by the engine; made, advanced and dropped by the
// thread that has its role.
//
// - A single fragment's output is the working buffer. Several fragments, those of a reducescatter, and none (the rank
// has
//   joined) take a buffer of the pool: fragments are packed into it, and those with an output are unpacked at the end.
// - The prescale is applied while packing and rounds to the dtype, before any transfer. Average's division and the
//   postscale are applied by the schedule's last reduction of each element, in the precision of that reduction.
//   Short floats are rounded once for each reduction of the schedule: once in all by the direct allreduce, at
//   every step by the others.
// - An allgather's output does not overlap its input, except that the input may already be in its place in it. An
//   alltoall's does not.
class ScheduleOperation : public Operation {
 public:
  // `collective` is as the engine checked it, and its spans and memory, `transport` and `pool` outlive the operation.
  // Once advanced, the operation may be dropped only when it is complete or the transport has failed: until then the
  // transport knows its buffers.
  ScheduleOperation(const Collective& collective, Schedule schedule, Transport& transport, BufferPool& pool);

  // Errors: those of the transport; INTERNAL if the root of a broadcast has joined and so has no data. They stick.
  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }
  // The schedule's.
  absl::string_view algorithm() const { return schedule_.algorithm; }

 private:
  enum class Stage : uint8_t { kPack, kStartRound, kTransfer, kReduce, kUnpack, kDone };
  // Elements to copy from one place to another. A null source stands for the reduction's identity.
  struct Copy {
    const char* source = nullptr;
    char* target = nullptr;
    int64_t count = 0;
    double factor = 1.0;
  };

  void PlanPacking();
  void PlanAllgather();
  void PlanAlltoall();
  void AddCopy(std::vector<Copy>* copies, const Copy& copy) const;
  // Each does at most about `budget` bytes of work, returns how much it did, and goes to the next stage when done.
  int64_t CopySome(const std::vector<Copy>& copies, Stage next, int64_t budget);
  int64_t ReduceSome(int64_t budget);
  void ReduceSlice(const Step& step, int64_t count);
  void StartRound();
  // False: the round waits for a peer.
  absl::StatusOr<bool> FinishTransfers();
  char* At(const Piece& piece, int64_t index) const;

  const Collective collective_;
  const Schedule schedule_;
  Transport& transport_;
  const int64_t element_bytes_;
  const BufferPool::Lease scratch_;
  BufferPool::Lease leased_work_;
  char* work_ = nullptr;
  std::vector<Copy> packing_;
  std::vector<Copy> unpacking_;

  absl::Status error_;
  bool moved_ = false;
  Stage stage_ = Stage::kPack;
  size_t round_ = 0;
  // The copy, or the step of the round, that is in progress, and its elements that are done.
  size_t next_ = 0;
  int64_t done_ = 0;
  std::vector<Transfer> transfers_;
  std::vector<const void*> inputs_;
  // For a step of Adasum, which goes over its two tensors twice; true: the first time is over.
  AdasumProducts products_;
  bool has_products_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULE_OPERATION_H_
