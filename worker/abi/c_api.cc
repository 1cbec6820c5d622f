// The C interface: worker/farandole.h over the process's one Worker.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/utf8_text.h"
#include "base/version.h"
#include "worker/abi/c_call.h"
#include "worker/abi/c_gpu.h"
#include "worker/farandole.h"
#include "worker/member/worker.h"

namespace farandole {
namespace {

// As ints, the return type of the functions.
constexpr int kOk = FARANDOLE_OK;
constexpr int kPending = FARANDOLE_STILL_PENDING;

farandole_handle Handle(const absl::StatusOr<int64_t>& handle) {
  return handle.ok() ? *handle : -static_cast<farandole_handle>(Code(handle.status()));
}

// The request's numbers, checked.
absl::Status FillRequest(OpType op, const char* name, int32_t dtype, int32_t reduce_op, int32_t group,
                         Request* request) {
  if (dtype < 0 || dtype >= kDTypeCount) return DTypeFromInt(dtype).status();
  if (reduce_op < 0 || reduce_op >= kReduceOpCount) return ReduceOpFromInt(reduce_op).status();
  if (group < 0) return absl::InvalidArgumentError(absl::StrCat("there is no process set ", group));
  request->op = op;
  request->dtype = static_cast<DType>(dtype);
  request->reduce_op = static_cast<ReduceOp>(reduce_op);
  request->group = static_cast<uint32_t>(group);
  if (name != nullptr) request->name = name;
  return absl::OkStatus();
}

absl::StatusOr<Request> MakeRequest(OpType op, const char* name, int32_t dtype, int32_t reduce_op, int32_t group) {
  Request request;
  absl::Status filled = FillRequest(op, name, dtype, reduce_op, group, &request);
  if (!filled.ok()) return filled;
  return request;
}

absl::Status FillTensor(const void* input, void* output, const int64_t* shape, int32_t ndim, bool needs_output,
                        TensorView* tensor) {
  if (ndim < 0 || (ndim > 0 && shape == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor has ", ndim, " dimensions, but ", shape == nullptr ? "no shape" : "a shape"));
  }
  tensor->input = input;
  tensor->output = output;
  tensor->shape = absl::MakeConstSpan(shape, static_cast<size_t>(ndim));
  bool empty = false;
  for (int64_t dim : tensor->shape) empty = empty || dim == 0;
  if (!empty && (input == nullptr || (needs_output && output == nullptr))) {
    return absl::InvalidArgumentError("a tensor with elements has no memory: its input or output is NULL");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> MakeTensor(const void* input, void* output, const int64_t* shape, int32_t ndim,
                                      bool needs_output) {
  TensorView tensor;
  absl::Status filled = FillTensor(input, output, shape, ndim, needs_output, &tensor);
  if (!filled.ok()) return filled;
  return tensor;
}

absl::StatusOr<std::vector<GroupMember>> MakeMembers(const farandole_part& part) {
  std::vector<GroupMember> members;
  for (int32_t i = 0; i < part.count; ++i) {
    const farandole_member& member = part.members[i];
    absl::StatusOr<DType> dtype = DTypeFromInt(member.dtype);
    if (!dtype.ok()) return dtype.status();
    members.push_back({*dtype, member.is_on_gpu != 0, {member.shape, member.shape + std::max(member.ndim, 0)}});
  }
  return members;
}

int64_t Nanoseconds(int64_t timeout_ms) { return timeout_ms < 0 ? -1 : timeout_ms * 1'000'000; }

farandole_handle Submit(Request request, int64_t wait_ms) {
  return WithWorker<farandole_handle>(-FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    if (absl::Status placed = PlaceOnGpu(worker, &request); !placed.ok()) return Handle(placed);
    if (wait_ms == 0) return Handle(worker.engine().Submit(request));
    if (wait_ms == FARANDOLE_BRIEFLY) return Handle(worker.engine().SubmitAndGlance(request));
    farandole_handle handle = 0;
    const absl::Status status =
        worker.engine().SubmitAndWait(request, Nanoseconds(wait_ms), /*release=*/false, &handle).status();
    // wait() returns the error of a submission.
    return handle != 0 ? handle : Handle(status);
  });
}

// `part` may be null.
farandole_handle SubmitPart(const farandole_part* part, Request request, int64_t wait_ms) {
  if (part == nullptr) return Submit(std::move(request), wait_ms);
  request.after = part->first;
  if (request.after != 0) return Submit(std::move(request), wait_ms);
  const absl::StatusOr<std::vector<GroupMember>> members = MakeMembers(*part);
  if (!members.ok()) return Handle(members.status());
  request.members = &*members;
  return Submit(std::move(request), wait_ms);
}

farandole_handle SubmitOne(absl::StatusOr<Request> request, const absl::StatusOr<TensorView>& tensor, int64_t wait_ms,
                           const farandole_part* part = nullptr) {
  if (!request.ok()) return Handle(request.status());
  if (!tensor.ok()) return Handle(tensor.status());
  request->tensors = absl::MakeConstSpan(&*tensor, 1);
  return SubmitPart(part, *request, wait_ms);
}

int WaitFor(farandole_handle handle, int64_t timeout_ms, bool release) {
  return WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const bool may_be_on_gpu = worker.has_gpu();
    absl::StatusOr<bool> complete = worker.engine().Wait(handle, Nanoseconds(timeout_ms), release && !may_be_on_gpu);
    if (complete.ok() && !*complete) return kPending;
    if (may_be_on_gpu) complete = SettleOnGpu(worker, handle, std::move(complete), release);
    return Code(complete.status());
  });
}

template <typename Number>
int RankNumber(const Number& number) {
  return WithWorker<int>(-FARANDOLE_FAILED_PRECONDITION,
                         [&](Worker& worker) { return static_cast<int>(number(worker.rank_numbers())); });
}

}  // namespace
}  // namespace farandole

using farandole::Code;
using farandole::Handle;
using farandole::kOk;
using farandole::kPending;
using farandole::Process;
using farandole::RankNumber;
using farandole::WithWorker;
using farandole::Worker;
using farandole::Wrap;

extern "C" {

int farandole_abi_version(void) { return FARANDOLE_ABI_VERSION; }
const char* farandole_version(void) { return farandole::kVersion; }
const char* farandole_last_error(void) { return farandole::LastError().c_str(); }

int farandole_init(const farandole_init_options* options, int (*interrupted)(void)) {
  if (Process().is_forked_child()) return Code(farandole::NotRunning());
  const farandole::BlockingCall blocking("init()");
  if (absl::Status status = blocking.status(); !status.ok()) return Code(status);
  absl::StatusOr<farandole::WorkerOptions> read = farandole::ReadWorkerOptions(options);
  if (!read.ok()) return Code(read.status());
  for (const auto& [setting, value] :
       {std::make_pair("FARANDOLE_JOB", &read->job), std::make_pair("FARANDOLE_HOST_ID", &read->host_id)}) {
    if (absl::Status valid = farandole::CheckUtf8(setting, *value); !valid.ok()) return Code(valid);
  }
  return Code(Process().Start(*std::move(read), Wrap(interrupted)));
}

int farandole_rejoin(int (*interrupted)(void)) {
  if (Process().is_forked_child()) return Code(farandole::NotRunning());
  const farandole::BlockingCall blocking("the join of the job's next epoch");
  if (absl::Status status = blocking.status(); !status.ok()) return Code(status);
  return Code(Process().Rejoin(Wrap(interrupted)));
}

int farandole_is_elastic(void) { return !Process().is_forked_child() && Process().is_elastic() ? 1 : 0; }

int farandole_shutdown(int (*interrupted)(void)) {
  if (Process().is_forked_child()) return Code(farandole::NotRunning());
  const farandole::BlockingCall blocking("shutdown()");
  return Code(Process().Stop(Wrap(interrupted)));
}

int farandole_fail(const char* words) {
  return WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [words](Worker& worker) {
    worker.Fail(words == nullptr ? "" : words);
    return FARANDOLE_OK;
  });
}

int farandole_is_initialized(void) {
  return !Process().is_forked_child() && WithWorker<int>(0, [](Worker&) { return Process().is_stopping() ? 0 : 1; });
}

int farandole_rank(void) {
  return RankNumber([](const auto& info) { return info.rank; });
}
int farandole_size(void) {
  return RankNumber([](const auto& info) { return info.size; });
}
int farandole_local_rank(void) {
  return RankNumber([](const auto& info) { return info.local_rank; });
}
int farandole_local_size(void) {
  return RankNumber([](const auto& info) { return info.local_size; });
}
int farandole_cross_rank(void) {
  return RankNumber([](const auto& info) { return info.cross_rank; });
}
int farandole_cross_size(void) {
  return RankNumber([](const auto& info) { return info.cross_size; });
}
int farandole_is_homogeneous(void) {
  return RankNumber([](const auto& info) { return info.is_homogeneous ? 1 : 0; });
}
int64_t farandole_epoch(void) {
  return WithWorker<int64_t>(-FARANDOLE_FAILED_PRECONDITION,
                             [](Worker& worker) { return static_cast<int64_t>(worker.rank_numbers().epoch); });
}

int farandole_add_group(const int32_t* ranks, int32_t count, int32_t* group, int (*interrupted)(void)) {
  return farandole::WithLastingWorker("add_process_set()", [&](Worker& worker) {
    absl::StatusOr<uint32_t> added =
        worker.AddGroup(std::vector<int>(ranks, ranks + (count > 0 ? count : 0)), Wrap(interrupted));
    if (!added.ok()) return Code(added.status());
    *group = static_cast<int32_t>(*added);
    return kOk;
  });
}

int farandole_remove_group(int32_t group, int (*interrupted)(void)) {
  return farandole::WithLastingWorker("remove_process_set()", [&](Worker& worker) {
    return Code(worker.RemoveGroup(static_cast<uint32_t>(group), Wrap(interrupted)));
  });
}

int farandole_group_rank(int32_t group) {
  return WithWorker<int>(-FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    absl::StatusOr<std::vector<int>> ranks = worker.engine().table().RanksOf(static_cast<uint32_t>(group));
    if (!ranks.ok()) return -Code(ranks.status()) - 1;
    auto at = std::lower_bound(ranks->begin(), ranks->end(), worker.rank_numbers().rank);
    return at != ranks->end() && *at == worker.rank_numbers().rank ? static_cast<int>(at - ranks->begin()) : -1;
  });
}

int farandole_group_size(int32_t group) {
  return WithWorker<int>(-FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    absl::StatusOr<std::vector<int>> ranks = worker.engine().table().RanksOf(static_cast<uint32_t>(group));
    return ranks.ok() ? static_cast<int>(ranks->size()) : -Code(ranks.status()) - 1;
  });
}

farandole_handle farandole_allreduce(const char* name, const void* input, void* output, const int64_t* shape,
                                     int32_t ndim, int32_t dtype, int32_t reduce_op, double prescale, double postscale,
                                     int32_t group, int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kAllreduce, name, dtype, reduce_op, group);
  if (request.ok()) {
    request->prescale = prescale;
    request->postscale = postscale;
  }
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, output, shape, ndim, true), wait_ms);
}

int farandole_allreduce_now(const char* name, const void* input, void* output, const int64_t* shape, int32_t ndim,
                            int32_t dtype, int32_t reduce_op, double prescale, double postscale, int32_t group,
                            int64_t timeout_ms, farandole_handle* handle) {
  *handle = 0;
  const auto fill = [&](farandole::Request* request, farandole::TensorView* tensor) {
    const absl::Status filled =
        farandole::FillRequest(farandole::OpType::kAllreduce, name, dtype, reduce_op, group, request);
    return filled.ok() ? farandole::FillTensor(input, output, shape, ndim, true, tensor) : filled;
  };
  const int code = WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const bool may_repeat = name != nullptr && shape != nullptr && ndim >= 0 && !farandole::IsOnGpu();
    if (may_repeat) {
      farandole::NamedAllreduce call;
      call.name = name;
      call.input = input;
      call.output = output;
      call.shape = {shape, static_cast<size_t>(ndim)};
      call.dtype = dtype;
      call.reduce_op = reduce_op;
      call.group = group;
      call.prescale = prescale;
      call.postscale = postscale;
      absl::StatusOr<bool> complete = false;
      if (worker.engine().RepeatAndWait(call, farandole::Nanoseconds(timeout_ms), handle, &complete)) {
        if (complete.ok() && !*complete) return kPending;
        *handle = 0;
        return Code(complete.status());
      }
    }
    farandole::Request request;
    farandole::TensorView tensor;
    if (const absl::Status filled = fill(&request, &tensor); !filled.ok()) return Code(filled);
    request.prescale = prescale;
    request.postscale = postscale;
    request.tensors = absl::MakeConstSpan(&tensor, 1);
    if (absl::Status placed = farandole::PlaceOnGpu(worker, &request); !placed.ok()) return Code(placed);
    const bool is_on_gpu = request.gpu != nullptr;
    absl::StatusOr<bool> complete =
        worker.engine().SubmitAndWait(request, farandole::Nanoseconds(timeout_ms), !is_on_gpu, handle);
    if (complete.ok() && !*complete) return kPending;
    if (is_on_gpu && *handle != 0) complete = farandole::SettleOnGpu(worker, *handle, std::move(complete), true);
    *handle = 0;
    return Code(complete.status());
  });
  if (code != FARANDOLE_FAILED_PRECONDITION) return code;
  // A call that is wrong is told so first, also before init().
  farandole::Request request;
  farandole::TensorView tensor;
  const absl::Status filled = fill(&request, &tensor);
  return filled.ok() ? code : Code(filled);
}

farandole_handle farandole_grouped_allreduce(const char* name, const farandole_tensor* tensors, int32_t count,
                                             int32_t dtype, int32_t reduce_op, double prescale, double postscale,
                                             int32_t group, int64_t wait_ms, const farandole_part* part) {
  auto request = farandole::MakeRequest(farandole::OpType::kAllreduce, name, dtype, reduce_op, group);
  if (!request.ok()) return Handle(request.status());
  std::vector<farandole::TensorView> views;
  for (int32_t i = 0; i < count; ++i) {
    auto view = farandole::MakeTensor(tensors[i].input, tensors[i].output, tensors[i].shape, tensors[i].ndim, true);
    if (!view.ok()) return Handle(view.status());
    views.push_back(*view);
  }
  request->prescale = prescale;
  request->postscale = postscale;
  request->tensors = views;
  return farandole::SubmitPart(part, *request, wait_ms);
}

farandole_handle farandole_allgather(const char* name, const void* input, const int64_t* shape, int32_t ndim,
                                     int32_t dtype, int32_t group, int64_t wait_ms, const farandole_part* part) {
  return farandole::SubmitOne(farandole::MakeRequest(farandole::OpType::kAllgather, name, dtype, FARANDOLE_SUM, group),
                              farandole::MakeTensor(input, nullptr, shape, ndim, false), wait_ms, part);
}

farandole_handle farandole_alltoall(const char* name, const void* input, const int64_t* shape, int32_t ndim,
                                    int32_t dtype, const int64_t* splits, int32_t splits_count, int32_t group,
                                    int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kAlltoall, name, dtype, FARANDOLE_SUM, group);
  if (request.ok() && splits != nullptr)
    request->splits = absl::MakeConstSpan(splits, static_cast<size_t>(std::max(splits_count, 0)));
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, nullptr, shape, ndim, false), wait_ms);
}

farandole_handle farandole_gather(const char* name, const void* input, const int64_t* shape, int32_t ndim,
                                  int32_t dtype, int32_t root, int32_t group, int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kGather, name, dtype, FARANDOLE_SUM, group);
  if (request.ok()) request->root_rank = root;
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, nullptr, shape, ndim, false), wait_ms);
}

farandole_handle farandole_scatter(const char* name, const void* input, const int64_t* shape, int32_t ndim,
                                   int32_t dtype, int32_t root, int32_t group, int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kScatter, name, dtype, FARANDOLE_SUM, group);
  if (request.ok()) request->root_rank = root;
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, nullptr, shape, ndim, false), wait_ms);
}

farandole_handle farandole_broadcast(const char* name, const void* input, void* output, const int64_t* shape,
                                     int32_t ndim, int32_t dtype, int32_t root, int32_t group, int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kBroadcast, name, dtype, FARANDOLE_SUM, group);
  if (request.ok()) request->root_rank = root;
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, output, shape, ndim, true), wait_ms);
}

farandole_handle farandole_reducescatter(const char* name, const void* input, void* output, const int64_t* shape,
                                         int32_t ndim, int32_t dtype, int32_t reduce_op, double prescale,
                                         double postscale, int32_t group, int64_t wait_ms, const farandole_part* part) {
  auto request = farandole::MakeRequest(farandole::OpType::kReducescatter, name, dtype, reduce_op, group);
  if (request.ok()) {
    request->prescale = prescale;
    request->postscale = postscale;
  }
  return farandole::SubmitOne(std::move(request), farandole::MakeTensor(input, output, shape, ndim, false), wait_ms,
                              part);
}

farandole_handle farandole_join(int32_t* last_rank) {
  farandole::TensorView tensor;
  tensor.output = last_rank;
  return farandole::SubmitOne(
      farandole::MakeRequest(farandole::OpType::kJoin, nullptr, FARANDOLE_I32, FARANDOLE_SUM, 0), tensor,
      /*wait_ms=*/0);
}

farandole_handle farandole_barrier(const char* name, int32_t group, int64_t wait_ms) {
  auto request = farandole::MakeRequest(farandole::OpType::kBarrier, name, FARANDOLE_U8, FARANDOLE_SUM, group);
  if (!request.ok()) return Handle(request.status());
  return farandole::Submit(*request, wait_ms);
}

int farandole_poll(farandole_handle handle) {
  return WithWorker<int>(-FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const absl::StatusOr<bool> complete = worker.engine().Wait(handle, 0, false);
    if (complete.ok() && !(*complete && farandole::IsOverOnGpu(worker, handle))) return 0;
    Code(complete.status());
    // A submission that failed is complete; a handle that is not known is an error.
    return worker.engine().IsKnown(handle) ? 1 : -static_cast<int>(FARANDOLE_INVALID_ARGUMENT);
  });
}

int farandole_wait(farandole_handle handle, int64_t timeout_ms) {
  return farandole::WaitFor(handle, timeout_ms, false);
}

int farandole_finish(farandole_handle handle, int64_t timeout_ms) {
  return farandole::WaitFor(handle, timeout_ms, true);
}

int farandole_wait_for_completion(uint64_t* completions, int64_t timeout_ms) {
  return WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const uint64_t seen = *completions;
    *completions = worker.engine().WaitForCompletion(seen, farandole::Nanoseconds(timeout_ms));
    return *completions != seen ? kOk : kPending;
  });
}

int farandole_result(farandole_handle handle, void** data, int64_t* bytes, int64_t* rows) {
  return WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const farandole::Submission* result = worker.engine().Result(handle);
    if (result == nullptr) return Code(farandole::NoResult(handle));
    *data = result->gpu == nullptr ? result->result.get() : result->gpu_result.data();
    *bytes = result->result_bytes;
    if (rows != nullptr) std::copy(result->rows_by_position.begin(), result->rows_by_position.end(), rows);
    return kOk;
  });
}

void farandole_release(farandole_handle handle) {
  WithWorker<int>(0, [&](Worker& worker) {
    worker.engine().Release(handle);
    return 0;
  });
}

int farandole_read_counters(farandole_counters* counters) {
  return WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const auto engine = worker.engine().counters();
    const auto table = worker.engine().table().counters();
    farandole_counters read = {};
    read.struct_bytes = counters->struct_bytes;
    read.submissions = table.submissions;
    read.completions = table.completions;
    read.batches = engine.batches;
    read.bytes = engine.bytes;
    read.coordinator_messages = worker.coordinator_messages();
    read.engine_ns = engine.engine_ns;
    read.wait_ns = engine.wait_ns;
    read.arena_bytes = engine.arena_bytes;
    memcpy(counters, &read, std::min<size_t>(counters->struct_bytes, sizeof(read)));
    return kOk;
  });
}

}  // extern "C"
