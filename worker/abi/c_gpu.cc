// The part of the C interface that is about tensors in GPUs.
#include "worker/abi/c_gpu.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/abi/c_call.h"
#include "worker/engine/gpu_request.h"
#include "worker/farandole.h"

namespace farandole {
namespace {

struct ThreadStream {
  int gpu = -1;
  CudaStream stream = nullptr;
};
thread_local ThreadStream current;

absl::StatusOr<std::shared_ptr<Gpu>> Use(Worker& worker, int ordinal) {
  const absl::StatusOr<GpuCollectives*> gpus = worker.gpus();
  if (!gpus.ok()) return gpus.status();
  return (*gpus)->Use(ordinal);
}

absl::Status AwaitOutputs(Submission& submission) {
  if (!submission.done.is_set()) return absl::OkStatus();
  if (submission.gpu->ordinal() != current.gpu) return submission.gpu->Await(submission.done);
  absl::Status waits = submission.gpu->Wait(current.stream, submission.done);
  // A stream that captures a graph cannot wait for work outside of the graph, and must not free memory of it either.
  if (waits.ok()) submission.gpu_result.FreeAfter(current.stream);
  return waits;
}

}  // namespace

bool IsOnGpu() { return current.gpu >= 0; }

absl::Status PlaceOnGpu(Worker& worker, Request* request) {
  if (current.gpu < 0 || TraitsOf(request->op).tensors == OpTraits::Tensors::kNone) return absl::OkStatus();
  const absl::StatusOr<GpuCollectives*> gpus = worker.gpus();
  if (!gpus.ok()) return gpus.status();
  return PlaceInGpu(**gpus, worker.engine().table(), current.gpu, current.stream, request);
}

absl::StatusOr<bool> SettleOnGpu(Worker& worker, int64_t handle, absl::StatusOr<bool> complete, bool release) {
  Submission* submission = complete.ok() ? worker.engine().Completed(handle) : nullptr;
  if (submission != nullptr && submission->gpu != nullptr) {
    absl::Status status = AwaitOutputs(*submission);
    // NCCL's kernels end even if peers are gone; their results are then undefined.
    if (status.ok()) status = worker.engine().table().ended();
    if (!status.ok()) complete = std::move(status);
  }
  if (release) worker.engine().Release(handle);
  return complete;
}

absl::Status CopyResult(Worker& worker, int64_t handle, void* output) {
  Submission* result = worker.engine().Result(handle);
  if (result == nullptr) return NoResult(handle);
  const size_t bytes = static_cast<size_t>(result->result_bytes);
  if (bytes == 0) return absl::OkStatus();
  if (result->gpu == nullptr) {
    std::memcpy(output, result->result.get(), bytes);
    return absl::OkStatus();
  }
  if (result->gpu->ordinal() == current.gpu) {
    absl::Status copied = result->gpu->Copy(output, result->gpu_result.data(), bytes, current.stream);
    // A graph's memory is freed in the graph.
    if (result->done.is_captured()) result->gpu_result = GpuMemory();
    return copied;
  }
  // A caller that waited on the host so far goes on waiting there.
  Gpu& gpu = *result->gpu;
  if (absl::Status copied = gpu.Copy(output, result->gpu_result.data(), bytes, gpu.stream()); !copied.ok())
    return copied;
  const absl::StatusOr<GpuEvent> done = gpu.Record(gpu.stream());
  return done.ok() ? gpu.Await(*done) : done.status();
}

absl::Status NoResult(int64_t handle) {
  return absl::FailedPreconditionError(absl::StrCat("handle ", handle, " is not a complete allgather or alltoall"));
}

bool IsOverOnGpu(Worker& worker, int64_t handle) {
  if (!worker.has_gpu()) return true;
  const Submission* submission = worker.engine().Completed(handle);
  if (submission == nullptr || submission->gpu == nullptr) return true;
  // If the query fails, report complete; wait() returns the error.
  return submission->gpu->IsOver(submission->done).value_or(true);
}

}  // namespace farandole

extern "C" {

int farandole_use_stream(int32_t gpu, void* stream) {
  using farandole::Worker;
  if (gpu < 0) {
    farandole::current = {};
    return FARANDOLE_OK;
  }
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const absl::Status usable = farandole::Use(worker, gpu).status();
    if (!usable.ok()) return farandole::Code(usable);
    farandole::current = {gpu, static_cast<farandole::CudaStream>(stream)};
    return static_cast<int>(FARANDOLE_OK);
  });
}

int farandole_copy_result(farandole_handle handle, void* output) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](farandole::Worker& worker) {
    return farandole::Code(farandole::CopyResult(worker, handle, output));
  });
}

const char* farandole_gpu_transport(void) {
  return farandole::WithWorker<const char*>(
      "", [](farandole::Worker& worker) { return worker.gpu_transport().ok() ? worker.gpu_transport()->c_str() : ""; });
}

int32_t farandole_nccl_version(void) {
  // Another thread may have held the look-up's lock when it was forked.
  if (farandole::Process().is_forked_child()) return 0;
  const farandole::WorkerOptions options = farandole::ReadNcclSettings();
  return farandole::FindNcclVersion(options.nccl_library, options.nccl_blocks).value_or(0);
}

int farandole_announce_more(void) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [](farandole::Worker& worker) {
    worker.engine().AnnounceMore();
    return static_cast<int>(FARANDOLE_OK);
  });
}

int farandole_epoch_ended(void) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [](farandole::Worker& worker) {
    return farandole::Code(worker.engine().table().ended());
  });
}

}  // extern "C"
