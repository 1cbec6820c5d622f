#ifndef FARANDOLE_SDK_CPP_FARANDOLE_JOB_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_JOB_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farandole/call.h"
#include "farandole/future.h"
#include "farandole/library.h"
#include "farandole/life.h"
#include "farandole/options.h"
#include "farandole/process_set.h"
#include "farandole/status.h"
#include "farandole/tensor.h"

namespace farandole {
inline namespace sdk {

/// This process's part in a job, from Init() to the end of this object, which leaves the job in order. A process has
/// one at a time: a Job that was shut down or moved from refuses all calls (FAILED_PRECONDITION), and its destructor
/// does nothing to a later one. Any thread may call any method, but Rejoin, Shutdown and the destructor alone.
///
/// All ranks of the process set call an operation with the same name, element type and, unless it says otherwise,
/// shape; without a name, calls are paired in their order. Where ranks disagree, each gets INVALID_ARGUMENT, which
/// names two of them and both values, and the job goes on. ABORTED: a worker has died or left.
///
/// Each operation has a form that waits, one that returns a future (Async), and where the output has the input's shape
/// both also in place. An input and its output may be the same memory; other overlap is not allowed.
class Job {
 public:
  explicit Job(const Functions* functions) : life_(Life::Begin(*functions)) {}
  Job(Job&& other) noexcept { *this = std::move(other); }
  /// Leaves the job that it had before, as the destructor does.
  Job& operator=(Job&& other) noexcept {
    if (this == &other) return *this;
    Leave();
    life_ = std::exchange(other.life_, Life());
    rejoins_.store(other.rejoins_.load());
    joins_.store(other.joins_.load());
    exceptions_ = other.exceptions_;
    interrupted_ = other.interrupted_;
    return *this;
  }
  /// After an exception, the epoch ends on the other ranks as well, and they are told why.
  ~Job() { Leave(); }

  // ---- Place in the job ----

  /// 0 to size() - 1. Minus FAILED_PRECONDITION after Shutdown(), as the following.
  int rank() const { return functions().rank(); }
  int size() const { return functions().size(); }
  /// Among the job's workers of this host.
  int local_rank() const { return functions().local_rank(); }
  int local_size() const { return functions().local_size(); }
  /// Among the workers of the same local rank, one a host.
  int cross_rank() const { return functions().cross_rank(); }
  int cross_size() const { return functions().cross_size(); }
  bool is_homogeneous() const { return functions().is_homogeneous() == 1; }
  int64_t epoch() const { return functions().epoch(); }
  bool is_elastic() const { return functions().is_elastic() == 1; }

  // ---- Life ----

  /// Leaves the job in order; pending operations end with ABORTED. Rank 0 stays until all have left or died. Not for
  /// signal handlers, which set a flag instead (docs/cpp.md).
  Status Shutdown() {
    const Life life = life_;
    const Functions& functions = life.functions();
    Status status = StatusOf(functions, functions.shutdown(interrupted_));
    if (functions.is_initialized() != 1) life.End();  // after an error it may go on
    return status;
  }
  /// This program cannot go on: ends the epoch on all ranks with these words.
  Status Fail(const std::string& words) { return Told(functions().fail(words.c_str())); }
  /// Elastic jobs: leaves the epoch, with its futures, process sets and arenas, and joins the next, as elastic::Run
  /// does. CANCELLED: the job has no place for this process any more. ABORTED: the job has failed.
  Status Rejoin() {
    Status status = Told(functions().rejoin(interrupted_));
    if (status.ok()) ++rejoins_;
    return status;
  }
  /// How many further epochs this process has joined since Init(): tells two epochs apart also where epoch() stays 0.
  int64_t rejoins() const { return rejoins_.load(); }
  int64_t joins() const { return joins_.load(); }  ///< the calls of Join() and JoinAsync()
  /// OK, or why the epoch has ended.
  Status EpochEnded() const { return Told(functions().epoch_ended()); }
  /// From now on Shutdown, Rejoin and AddProcessSet ask it about every 100 ms whether to give up.
  void SetInterrupted(int (*interrupted)()) { interrupted_ = interrupted; }

  // ---- Process sets ----

  /// Makes a process set of ascending ranks. Collective over the whole job, in the same order among its calls; blocks.
  StatusOr<ProcessSet> AddProcessSet(std::vector<int32_t> ranks) {
    int32_t group = 0;
    const int code = functions().add_group(ranks.data(), static_cast<int32_t>(ranks.size()), &group, interrupted_);
    if (code != FARANDOLE_OK) return Told(code);
    return ProcessSet(life_, group, std::move(ranks));
  }
  /// Ends it; collective as AddProcessSet. FAILED_PRECONDITION: operations of it are pending.
  Status RemoveProcessSet(const ProcessSet& set) {
    if (Status status = set.Check(); !status.ok()) return status;
    return Told(functions().remove_group(set.group(), interrupted_));
  }
  /// This worker's position in the set, -1 if it is not in it; the number of its ranks. Minus NOT_FOUND - 1: it was
  /// removed. Minus FAILED_PRECONDITION: it is of another epoch, or of another Job.
  int RankIn(const ProcessSet& set) const { return set.Check().ok() ? functions().group_rank(set.group()) : kOldSet; }
  int SizeOf(const ProcessSet& set) const { return set.Check().ok() ? functions().group_size(set.group()) : kOldSet; }

  // ---- Operations ----

  /// output = postscale * reduce over ranks (prescale * input), in the order of ranks: equal to the bit on all of them.
  Status Allreduce(const ConstTensor& input, const MutableTensor& output, const Call& call = {}) {
    if (Status status = CheckPair(input, output, call); !status.ok()) return status;
    farandole_handle pending = 0;
    return Told(functions().allreduce_now(call.name(), input.data(), output.data(), input.shape().begin(),
                                          input.shape().ndim(), Number(input), call.op(), call.prescale(),
                                          call.postscale(), call.group(), kNoLimit, &pending));
  }
  Status AllreduceInPlace(const MutableTensor& tensor, const Call& call = {}) {
    if (Status status = CheckOne(tensor, call); !status.ok()) return status;
    farandole_handle pending = 0;
    return Told(functions().allreduce_now(call.name(), tensor.data(), tensor.data(), tensor.shape().begin(),
                                          tensor.shape().ndim(), Number(tensor), call.op(), call.prescale(),
                                          call.postscale(), call.group(), kNoLimit, &pending));
  }
  Future AllreduceAsync(const ConstTensor& input, const MutableTensor& output, const Call& call = {}) {
    if (Status status = CheckPair(input, output, call); !status.ok()) return Future(Submission(std::move(status)));
    return Submitted(functions().allreduce(call.name(), input.data(), output.data(), input.shape().begin(),
                                           input.shape().ndim(), Number(input), call.op(), call.prescale(),
                                           call.postscale(), call.group(), kAtOnce));
  }
  Future AllreduceInPlaceAsync(const MutableTensor& tensor, const Call& call = {}) {
    return AllreduceAsync(AsConst(tensor), tensor, call);
  }

  /// Several tensors of one element type as one: all are reduced together, or none. As many outputs as inputs; all
  /// ranks give as many tensors, of which there may be none.
  Status GroupedAllreduce(const std::vector<ConstTensor>& inputs, const std::vector<MutableTensor>& outputs,
                          const Call& call = {}) {
    return Grouped(inputs, outputs, call, kNoLimit).Wait();
  }
  Status GroupedAllreduceInPlace(const std::vector<MutableTensor>& tensors, const Call& call = {}) {
    return Grouped(tensors, tensors, call, kNoLimit).Wait();
  }
  Future GroupedAllreduceAsync(const std::vector<ConstTensor>& inputs, const std::vector<MutableTensor>& outputs,
                               const Call& call = {}) {
    return Grouped(inputs, outputs, call, kAtOnce);
  }
  Future GroupedAllreduceInPlaceAsync(const std::vector<MutableTensor>& tensors, const Call& call = {}) {
    return Grouped(tensors, tensors, call, kAtOnce);
  }

  /// Concatenates the ranks' inputs along the first dimension, in which they may differ (0 too). A scalar is [1].
  StatusOr<Gathered> Allgather(const ConstTensor& input, const Call& call = {}) {
    return GatherToAll(input, call, kNoLimit).Wait();
  }
  GatherFuture AllgatherAsync(const ConstTensor& input, const Call& call = {}) {
    return GatherToAll(input, call, kAtOnce);
  }

  /// Allgather of several tensors, of any element types, in one call: results in their order. All ranks give as many
  /// tensors, of the same types and but for the first dimension shapes, or each gets INVALID_ARGUMENT.
  StatusOr<std::vector<Gathered>> GroupedAllgather(const std::vector<ConstTensor>& inputs, const Call& call = {}) {
    return GatherEach(inputs, call, kNoLimit).Wait();
  }
  GroupedGatherFuture GroupedAllgatherAsync(const std::vector<ConstTensor>& inputs, const Call& call = {}) {
    return GatherEach(inputs, call, kAtOnce);
  }

  /// Gives the first splits[0] rows to the set's rank 0, the next splits[1] to rank 1, ...; what this rank gets comes
  /// in the order of the ranks that have given it. Without splits all get equally many. INVALID_ARGUMENT: a scalar;
  /// splits of another number than ranks, or of more rows than there are.
  StatusOr<Gathered> Alltoall(const ConstTensor& input, const std::vector<int64_t>& splits = {},
                              const Call& call = {}) {
    return Exchange(input, splits, call, kNoLimit).Wait();
  }
  GatherFuture AlltoallAsync(const ConstTensor& input, const std::vector<int64_t>& splits = {}, const Call& call = {}) {
    return Exchange(input, splits, call, kAtOnce);
  }

  /// As Allgather on `root`, a rank of the job that is in the process set; the others get no rows.
  StatusOr<Gathered> Gather(const ConstTensor& input, int root, const Call& call = {}) {
    return WithRoot(functions().gather, input, root, call, kNoLimit).Wait();
  }
  GatherFuture GatherAsync(const ConstTensor& input, int root, const Call& call = {}) {
    return WithRoot(functions().gather, input, root, call, kAtOnce);
  }

  /// Gives each rank of the set its part of the rows of the input of `root`, a rank of the job that is in it: rows /
  /// size of them, in the order of the ranks, and one more to the first rows % size. The others' inputs are of the same
  /// element type and shape, but for the first dimension, which may be 0; their elements do not count.
  /// INVALID_ARGUMENT: a scalar.
  StatusOr<Gathered> Scatter(const ConstTensor& input, int root, const Call& call = {}) {
    return WithRoot(functions().scatter, input, root, call, kNoLimit).Wait();
  }
  GatherFuture ScatterAsync(const ConstTensor& input, int root, const Call& call = {}) {
    return WithRoot(functions().scatter, input, root, call, kAtOnce);
  }

  /// output on every rank = input of `root`, a rank of the job that is in the process set.
  Status Broadcast(const ConstTensor& input, const MutableTensor& output, int root, const Call& call = {}) {
    return Cast(input, output, root, call, kNoLimit).Wait();
  }
  Status BroadcastInPlace(const MutableTensor& tensor, int root, const Call& call = {}) {
    return Cast(AsConst(tensor), tensor, root, call, kNoLimit).Wait();
  }
  Future BroadcastAsync(const ConstTensor& input, const MutableTensor& output, int root, const Call& call = {}) {
    return Cast(input, output, root, call, kAtOnce);
  }
  Future BroadcastInPlaceAsync(const MutableTensor& tensor, int root, const Call& call = {}) {
    return Cast(AsConst(tensor), tensor, root, call, kAtOnce);
  }
  /// Of bytes whose number only the root knows.
  Status BroadcastBytes(std::string* bytes, int root, const Call& call = {}) {
    auto size = static_cast<int64_t>(bytes->size());
    const std::string name = call.name() == nullptr ? "" : std::string(call.name()) + ".size";
    if (Status status = BroadcastInPlace(Scalar(&size), root, call.Renamed(name.c_str())); !status.ok()) return status;
    bytes->resize(static_cast<size_t>(size));
    return BroadcastInPlace(MutableTensor(bytes->data(), Shape{size}, DType::kU8), root, call);
  }

  /// Reduces as Allreduce, and gives each rank its part of the rows (first dimension), RowsOfShare(rows) of them in
  /// `output`, which does not overlap the input. INVALID_ARGUMENT: a scalar, or an output of another size.
  Status Reducescatter(const ConstTensor& input, const MutableTensor& output, const Call& call = {}) {
    return ReduceAndScatter(input, output, call, kNoLimit).Wait();
  }
  Future ReducescatterAsync(const ConstTensor& input, const MutableTensor& output, const Call& call = {}) {
    return ReduceAndScatter(input, output, call, kAtOnce);
  }
  /// Reducescatter of several tensors, of any element types, in one call. As many outputs as inputs, on all ranks.
  Status GroupedReducescatter(const std::vector<ConstTensor>& inputs, const std::vector<MutableTensor>& outputs,
                              const Call& call = {}) {
    return ReduceAndScatterEach(inputs, outputs, call, kNoLimit).Wait();
  }
  GroupedFuture GroupedReducescatterAsync(const std::vector<ConstTensor>& inputs,
                                          const std::vector<MutableTensor>& outputs, const Call& call = {}) {
    return ReduceAndScatterEach(inputs, outputs, call, kAtOnce);
  }
  /// This rank's share of a Reducescatter's rows: rows / size, one more on the first rows % size; 0 outside of the set.
  int64_t RowsOfShare(int64_t rows, const Call& call = {}) const {
    const int64_t size = call.Check().ok() ? functions().group_size(call.group()) : 0;
    const int64_t position = size > 0 ? functions().group_rank(call.group()) : -1;
    return position < 0 ? 0 : rows / size + (position < rows % size ? 1 : 0);
  }

  /// Returns when all ranks of the set have called it.
  Status Barrier(const Call& call = {}) { return Meet(call, kNoLimit).Wait(); }
  Future BarrierAsync(const Call& call = {}) { return Meet(call, kAtOnce); }

  /// Without more data, takes part in what the others submit until all have joined. Returns the rank that joined last.
  StatusOr<int> Join() { return JoinAsync().Wait(); }
  JoinFuture JoinAsync() {
    auto last = std::make_unique<int32_t>(-1);
    Submission submission(&functions(), functions().join(last.get()));
    if (submission.is_held()) ++joins_;
    return JoinFuture(std::move(submission), TakeLastRank{std::move(last)});
  }

  // ---- Tensors in a GPU ----

  /// From now on this thread's tensors are in the memory of GPU `gpu`, and `stream` (a cudaStream_t) gives them; -1: in
  /// the host's memory. farandole_use_stream in worker/farandole.h has the rules.
  Status UseStream(int gpu, void* stream) {
    const int code = functions().use_stream(gpu, stream);
    if (code == FARANDOLE_OK) IsThreadOnGpu() = gpu >= 0;
    return Told(code);
  }

  // ---- Looking at it ----

  /// Records from now on what tensors wait for, for Perfetto or chrome://tracing (docs/timeline.md). The file at `path`
  /// is replaced; ranks other than 0 write beside it, with ".rank1" and so on before its extension.
  Status StartTimeline(const std::string& path, bool mark_cycles = false) {
    return Told(functions().start_timeline(path.c_str(), mark_cycles ? 1 : 0));
  }
  Status StopTimeline() { return Told(functions().stop_timeline()); }
  /// Logs a number of the program, a loss say, for the job's curves (docs/logging.md); without a step, that of the next
  /// one. Values of a step are averaged over ranks, or with `by_rank` kept for each. Never waits for the coordinator.
  /// - INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the name cannot be one, or is the 257th
  Status Log(const std::string& name, double value, int64_t step = FARANDOLE_NEXT_STEP, bool by_rank = false) {
    return Told(functions().log(name.c_str(), value, step, by_rank ? 1 : 0));
  }
  /// This worker's work since Init().
  StatusOr<farandole_counters> Counters() const {
    farandole_counters counters = {};
    counters.struct_bytes = sizeof(counters);
    if (const int code = functions().read_counters(&counters); code != FARANDOLE_OK) return Told(code);
    return counters;
  }

  /// The library's, with which this process works until the Job has left; from then on, those that refuse.
  const Functions& functions() const { return life_.functions(); }
  const Life& life() const { return life_; }
  int (*interrupted() const)() { return interrupted_; }

 private:
  static constexpr int64_t kAtOnce = 0;
  static constexpr int64_t kNoLimit = -1;
  static constexpr int64_t kNoElements[] = {0};
  static constexpr int kOldSet = -FARANDOLE_FAILED_PRECONDITION;

  void Leave() {
    if (!life_.is_present()) return;
    if (std::uncaught_exceptions() > exceptions_) functions().fail("an exception has left the scope of the job");
    static_cast<void>(Shutdown());
  }

  // Whether this thread's tensors are in a GPU, which a grouped call states to the other ranks.
  static bool& IsThreadOnGpu() {
    static thread_local bool is_on_gpu = false;
    return is_on_gpu;
  }
  Status Told(int code) const { return code == FARANDOLE_OK ? Status() : StatusOf(functions(), code); }
  Future Submitted(farandole_handle handle) const { return Future(Submission(&functions(), handle)); }
  template <typename Tensor>
  static int32_t Number(const Tensor& tensor) {
    return static_cast<int32_t>(tensor.dtype());
  }

  template <typename Input>
  Future Grouped(const std::vector<Input>& inputs, const std::vector<MutableTensor>& outputs, const Call& call,
                 int64_t wait_ms) {
    Status status = CheckNumbers(inputs.size(), outputs.size());
    if (status.ok()) status = call.Check();
    // Kept, so that a call allocates nothing.
    static thread_local std::vector<farandole_tensor> tensors;
    tensors.clear();
    for (size_t i = 0; i < inputs.size() && status.ok(); ++i) {
      status = CheckPair(inputs[i], outputs[i], call);
      if (status.ok() && inputs[i].dtype() != inputs[0].dtype()) {
        status = Status(StatusCode::kInvalidArgument, std::string("a grouped operation has tensors of ") +
                                                          NameOf(inputs[0].dtype()) + " and of " +
                                                          NameOf(inputs[i].dtype()) + "; make a call for each type");
      }
      tensors.push_back({inputs[i].data(), outputs[i].data(), inputs[i].shape().begin(), inputs[i].shape().ndim()});
    }
    if (!status.ok()) return Future(Submission(std::move(status)));
    // A call without tensors says so to the other ranks, by a tensor without elements.
    const farandole_part none = {nullptr, 0, 0};
    if (inputs.empty()) tensors.push_back({nullptr, nullptr, kNoElements, 1});
    return Submitted(functions().grouped_allreduce(call.name(), tensors.data(), static_cast<int32_t>(tensors.size()),
                                                   inputs.empty() ? FARANDOLE_F32 : Number(inputs[0]), call.op(),
                                                   call.prescale(), call.postscale(), call.group(), wait_ms,
                                                   inputs.empty() ? &none : nullptr));
  }

  // The submissions of a grouped call whose operation takes one tensor at a time. `submit(name, tensor, wait_ms, part)`
  // makes one of them; `tensor` is a number, or -1 for the only submission of a call without tensors.
  template <typename Submit>
  Submissions SubmitEach(const std::vector<ConstTensor>& inputs, const Call& call, int64_t wait_ms, Submit submit) {
    std::vector<farandole_member> members;
    for (const ConstTensor& input : inputs) {
      members.push_back({input.shape().begin(), input.shape().ndim(), Number(input), IsThreadOnGpu() ? 1 : 0});
    }
    farandole_part part = {members.data(), static_cast<int32_t>(members.size()), 0};
    std::vector<Submission> all;
    const int count = static_cast<int>(inputs.size());
    for (int i = 0; i < std::max(count, 1); ++i) {
      // The first has the call's own name on every rank, whatever its tensors are, so that ranks can compare them.
      const bool is_named = call.name() != nullptr && *call.name() != '\0';
      const std::string name = is_named && i > 0 ? std::string(call.name()) + "." + std::to_string(i) : "";
      const int64_t wait = i + 1 < count ? kAtOnce : wait_ms;
      const farandole_handle handle =
          submit(i > 0 ? name.c_str() : call.name(), count == 0 ? -1 : i, wait, count == 1 ? nullptr : &part);
      if (i == 0) part.first = handle;
      all.emplace_back(&functions(), handle);
      if (handle < 0) break;
    }
    return Submissions(std::move(all));
  }

  GroupedGatherFuture GatherEach(const std::vector<ConstTensor>& inputs, const Call& call, int64_t wait_ms) {
    Status status = call.Check();
    std::vector<TakeGathered> each;
    for (const ConstTensor& input : inputs) {
      if (status.ok()) status = CheckOne(input, call);
      each.push_back({input.shape(), input.dtype(), functions().group_size(call.group())});
    }
    if (!status.ok()) return GroupedGatherFuture(Submissions(std::move(status)));
    const ConstTensor nothing(nullptr, {0}, DType::kF32);
    const auto submit = [&](const char* name, int at, int64_t wait, const farandole_part* part) {
      const ConstTensor& input = at < 0 ? nothing : inputs[static_cast<size_t>(at)];
      return functions().allgather(name, input.data(), input.shape().begin(), input.shape().ndim(), Number(input),
                                   call.group(), wait, part);
    };
    return GroupedGatherFuture(SubmitEach(inputs, call, wait_ms, submit), {std::move(each)});
  }

  GroupedFuture ReduceAndScatterEach(const std::vector<ConstTensor>& inputs, const std::vector<MutableTensor>& outputs,
                                     const Call& call, int64_t wait_ms) {
    Status status = CheckNumbers(inputs.size(), outputs.size());
    if (status.ok()) status = call.Check();
    for (size_t i = 0; i < inputs.size() && status.ok(); ++i) status = CheckShare(inputs[i], outputs[i], call);
    if (!status.ok()) return GroupedFuture(Submissions(std::move(status)));
    const ConstTensor nothing(nullptr, {0}, DType::kF32);
    const auto submit = [&](const char* name, int at, int64_t wait, const farandole_part* part) {
      const ConstTensor& input = at < 0 ? nothing : inputs[static_cast<size_t>(at)];
      void* const output = at < 0 ? nullptr : outputs[static_cast<size_t>(at)].data();
      return functions().reducescatter(name, input.data(), output, input.shape().begin(), input.shape().ndim(),
                                       Number(input), call.op(), call.prescale(), call.postscale(), call.group(), wait,
                                       part);
    };
    return GroupedFuture(SubmitEach(inputs, call, wait_ms, submit));
  }

  GatherFuture GatherToAll(const ConstTensor& input, const Call& call, int64_t wait_ms) {
    if (Status status = CheckOne(input, call); !status.ok()) return GatherFuture(Submission(std::move(status)));
    const int size = functions().group_size(call.group());
    Submission submission(&functions(),
                          functions().allgather(call.name(), input.data(), input.shape().begin(), input.shape().ndim(),
                                                Number(input), call.group(), wait_ms, nullptr));
    return GatherFuture(std::move(submission), {input.shape(), input.dtype(), size});
  }

  GatherFuture Exchange(const ConstTensor& input, const std::vector<int64_t>& splits, const Call& call,
                        int64_t wait_ms) {
    if (Status status = CheckOne(input, call); !status.ok()) return GatherFuture(Submission(std::move(status)));
    const int size = functions().group_size(call.group());
    Submission submission(&functions(),
                          functions().alltoall(call.name(), input.data(), input.shape().begin(), input.shape().ndim(),
                                               Number(input), splits.empty() ? nullptr : splits.data(),
                                               static_cast<int32_t>(splits.size()), call.group(), wait_ms));
    return GatherFuture(std::move(submission), {input.shape(), input.dtype(), size});
  }

  GatherFuture WithRoot(decltype(farandole_gather)* function, const ConstTensor& input, int root, const Call& call,
                        int64_t wait_ms) {
    if (Status status = CheckOne(input, call); !status.ok()) return GatherFuture(Submission(std::move(status)));
    const int size = functions().group_size(call.group());
    Submission submission(&functions(), function(call.name(), input.data(), input.shape().begin(), input.shape().ndim(),
                                                 Number(input), root, call.group(), wait_ms));
    return GatherFuture(std::move(submission), {input.shape(), input.dtype(), size});
  }

  Future Cast(const ConstTensor& input, const MutableTensor& output, int root, const Call& call, int64_t wait_ms) {
    if (Status status = CheckPair(input, output, call); !status.ok()) return Future(Submission(std::move(status)));
    return Submitted(functions().broadcast(call.name(), input.data(), output.data(), input.shape().begin(),
                                           input.shape().ndim(), Number(input), root, call.group(), wait_ms));
  }

  // Of a reducescatter.
  Status CheckShare(const ConstTensor& input, const MutableTensor& output, const Call& call) const {
    Status status = CheckTypes(input, output, call);
    if (!status.ok() || input.shape().ndim() == 0) return status;
    const int64_t rows = *input.shape().begin();
    const int64_t row = rows == 0 ? 0 : input.shape().count() / rows;
    const int64_t share = RowsOfShare(rows, call);
    if (functions().group_rank(call.group()) < 0 || output.shape().count() == share * row) return status;
    return Status(StatusCode::kInvalidArgument, "the output has shape " + output.shape().ToString() +
                                                    ", and this rank's part of " + input.shape().ToString() + " has " +
                                                    std::to_string(share) + " rows");
  }

  Future ReduceAndScatter(const ConstTensor& input, const MutableTensor& output, const Call& call, int64_t wait_ms) {
    Status status = CheckShare(input, output, call);
    if (!status.ok()) return Future(Submission(std::move(status)));
    return Submitted(functions().reducescatter(call.name(), input.data(), output.data(), input.shape().begin(),
                                               input.shape().ndim(), Number(input), call.op(), call.prescale(),
                                               call.postscale(), call.group(), wait_ms, nullptr));
  }

  Future Meet(const Call& call, int64_t wait_ms) {
    if (Status status = call.Check(); !status.ok()) return Future(Submission(std::move(status)));
    return Submitted(functions().barrier(call.name(), call.group(), wait_ms));
  }

  Life life_;
  std::atomic<int64_t> rejoins_{0}, joins_{0};
  int exceptions_ = std::uncaught_exceptions();
  int (*interrupted_)() = nullptr;
};

/// Joins the job, and returns when its epoch has formed and its peers are connected. Without a launcher and without
/// options, a job of size 1.
/// - FAILED_PRECONDITION: there is no worker library, or this process is a worker already
/// - INVALID_ARGUMENT: an option or variable is not valid (named), or workers disagree about the size
/// - DEADLINE_EXCEEDED: not all workers came in time (those who did are named)
/// - UNAVAILABLE: the coordinator cannot be reached
/// - UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED: the token, or the tenant's quota
inline StatusOr<Job> Init(const Options& options = {}) {
  const StatusOr<Functions>& library = Library();
  if (!library.ok()) return library.status();
  const farandole_init_options given = ForC(options);
  const int code = library->init(&given, options.interrupted);
  if (code != FARANDOLE_OK) return StatusOf(*library, code);
  Job job(&*library);
  job.SetInterrupted(options.interrupted);
  return job;
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_JOB_H_
