#include "sdk/mxnet/push.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/adapter/completer.h"
#include "sdk/mxnet/call.h"
#include "sdk/mxnet/mxnet_api.h"

namespace farandole::mxnet {
namespace {

// In MXNet's profiles.
const char* NameOf(Op op) {
  switch (op) {
    case Op::kAllreduce:
      return "FarandoleAllreduce";
    case Op::kAllgather:
      return "FarandoleAllgather";
    case Op::kBroadcast:
      return "FarandoleBroadcast";
    case Op::kReducescatter:
      return "FarandoleReducescatter";
    case Op::kAlltoall:
      return "FarandoleAlltoall";
    case Op::kGather:
      return "FarandoleGather";
    case Op::kScatter:
      return "FarandoleScatter";
    default:
      return "Farandole";
  }
}

// The engine's parameter of a pushed operation.
struct Pushed {
  std::unique_ptr<Call> call;
};

void Run(void* /*run_context*/, void* on_complete, void* parameter) {
  std::unique_ptr<Call> call = std::move(static_cast<Pushed*>(parameter)->call);
  call->Begin(*static_cast<const OnComplete*>(on_complete));
  adapter::Completer::Get().Run(std::move(call));
}

// The engine forgets the operation. It has not run it if an input carries another operation's error.
void Drop(void* parameter) {
  const std::unique_ptr<Pushed> pushed(static_cast<Pushed*>(parameter));
  if (pushed->call != nullptr) adapter::Completer::Get().Skip(std::move(pushed->call));
}

std::string Push(std::unique_ptr<Call> call, int priority) {
  std::vector<NDArrayHandle> read, written;
  call->ListArrays(&read, &written);
  const char* const name = NameOf(call->terms().op);
  adapter::Completer::Get().Reserve(call.get());
  auto pushed = std::make_unique<Pushed>(Pushed{std::move(call)});
  static const Context cpu = {1, 0};
  const int code = Mxnet().MXEnginePushAsyncND(
      Run, pushed.release(), Drop, &cpu, read.data(), static_cast<int>(read.size()), written.data(),
      static_cast<int>(written.size()), &kPrioritizedOperation, priority, name, /*waits=*/false);
  return code == 0 ? "" : Mxnet().MXGetLastError();
}

}  // namespace
}  // namespace farandole::mxnet

extern "C" const char* farandole_mxnet_push(const farandole_mxnet_terms* terms, void* const* inputs,
                                            void* const* outputs, int32_t count, const int64_t* splits,
                                            int32_t splits_count) {
  using farandole::adapter::Op;
  using farandole::adapter::Terms;
  thread_local std::string reason;
  Terms own = {static_cast<Op>(terms->op), terms->name, terms->reduce_op, terms->prescale,
               terms->postscale,           terms->root, terms->group,     terms->waits != 0};
  auto call = std::make_unique<farandole::mxnet::Call>(std::move(own));
  if (!call->Take(inputs, outputs, count)) {
    reason = call->reason();
  } else {
    if (splits != nullptr) call->TakeSplits(splits, splits_count);
    reason = farandole::mxnet::Push(std::move(call), terms->priority);
  }
  return reason.empty() ? nullptr : reason.c_str();
}
