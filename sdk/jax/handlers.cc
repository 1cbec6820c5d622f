#include "sdk/jax/handlers.h"

#include <memory>
#include <string>
#include <utility>

#include "sdk/adapter/completer.h"
#include "sdk/adapter/worker_library.h"
#include "sdk/jax/call.h"
#include "sdk/jax/instance.h"

namespace farandole::jax {
namespace {

// How long a submission for a GPU does the work before the caller waits in slices.
constexpr int64_t kSurfaceMs = 100;

FfiError* RunOnHost(FfiCallFrame* frame, Op op) {
  if (AnswerMetadata(frame, InstanceType())) return nullptr;
  if (FfiError* const refusal = RefuseInterface(frame); refusal != nullptr) return refusal;
  std::string name;
  if (FfiError* const error = NameOfInstance(frame, &name); error != nullptr) return error;
  auto call = std::make_unique<Call>(frame->api, op, std::move(name));
  if (!call->Prepare(frame)) return call->Finish();
  adapter::Completer& completer = adapter::Completer::Get();
  if (!completer.Start()) {
    // Nothing could tell XLA later, and a handler that waits may keep those from running that other ranks wait for.
    call->Fail(FARANDOLE_RESOURCE_EXHAUSTED, "farandole can start no thread in this process");
    return call->Finish();
  }
  FfiFuture* const promised = call->Postpone();
  if (promised == nullptr) return call->Finish();
  frame->future = promised;
  completer.Run(std::move(call));
  return nullptr;
}

// A submission is complete when it is enqueued in XLA's stream, so that this thread, which gives the stream its work,
// waits for no more than the other ranks' submissions. XLA runs a program's calls in one order, the same on all ranks.
FfiError* RunOnGpu(FfiCallFrame* frame, Op op) {
  if (AnswerMetadata(frame, InstanceType())) return nullptr;
  if (FfiError* const refusal = RefuseInterface(frame); refusal != nullptr) return refusal;
  const FfiApi* const api = frame->api;
  if (api->struct_size < sizeof(FfiApi)) {
    return MakeError(api, FARANDOLE_UNIMPLEMENTED,
                     "farandole needs a newer XLA for arrays in GPUs: this one does not tell which GPU it is");
  }
  FfiDeviceOrdinalArgs device = {sizeof(FfiDeviceOrdinalArgs), nullptr, frame->context, 0};
  if (FfiError* const error = api->device_ordinal_get(&device); error != nullptr) return error;
  FfiStreamArgs stream = {sizeof(FfiStreamArgs), nullptr, frame->context, nullptr};
  if (FfiError* const error = api->stream_get(&stream); error != nullptr) return error;
  std::string name;
  if (FfiError* const error = NameOfInstance(frame, &name); error != nullptr) return error;
  Call call(api, op, std::move(name));
  if (!call.Prepare(frame)) return call.Finish();
  call.SetOnGpu();
  if (const int code = Worker().use_stream(device.device_ordinal, stream.stream); code != 0) {
    return MakeError(api, code, Worker().last_error());
  }
  if (call.Submit(kSurfaceMs)) call.Wait();
  FfiError* const error = call.Finish();
  Worker().use_stream(-1, nullptr);
  return error;
}

template <Op op>
FfiError* OnHost(FfiCallFrame* frame) {
  return RunOnHost(frame, op);
}

template <Op op>
FfiError* OnGpu(FfiCallFrame* frame) {
  return RunOnGpu(frame, op);
}

template <Op op>
constexpr Handlers Both(const char* name) {
  return {name, OnHost<op>, OnGpu<op>};
}

}  // namespace

const std::vector<Handlers>& AllHandlers() {
  static const auto* handlers = new std::vector<Handlers>{
      Both<Op::kAllreduce>("farandole_allreduce"),
      Both<Op::kAllgather>("farandole_allgather"),
      Both<Op::kBroadcast>("farandole_broadcast"),
      Both<Op::kReducescatter>("farandole_reducescatter"),
      Both<Op::kAlltoall>("farandole_alltoall"),
      Both<Op::kGather>("farandole_gather"),
      Both<Op::kScatter>("farandole_scatter"),
      Both<Op::kBarrier>("farandole_barrier"),
      // It writes the last rank into the host's memory.
      {"farandole_join", OnHost<Op::kJoin>, nullptr},
  };
  return *handlers;
}

}  // namespace farandole::jax
