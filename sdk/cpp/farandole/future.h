#ifndef FARANDOLE_SDK_CPP_FARANDOLE_FUTURE_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_FUTURE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "farandole/library.h"
#include "farandole/status.h"
#include "farandole/tensor.h"

namespace farandole {
inline namespace sdk {

/// A submission of the library, owned: released when this goes. Moves, and is not copied.
class Submission {
 public:
  Submission() = default;
  /// `handle` is what a submitting function has returned on this thread: minus a code where nothing was submitted.
  Submission(const Functions* functions, farandole_handle handle) : functions_(functions), handle_(handle) {
    if (handle < 0) error_ = StatusOf(*functions, static_cast<int>(-handle));
  }
  explicit Submission(Status error) : handle_(-1), error_(std::move(error)) {}
  Submission(Submission&& other) noexcept
      : functions_(other.functions_), handle_(std::exchange(other.handle_, 0)), error_(std::move(other.error_)) {}
  Submission& operator=(Submission&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(handle_, other.handle_);
    std::swap(error_, other.error_);
    return *this;
  }
  ~Submission() { Release(); }

  const Functions& functions() const { return *functions_; }
  farandole_handle handle() const { return handle_; }
  bool is_held() const { return handle_ > 0; }

  /// True when Wait would not wait.
  bool IsComplete() const { return handle_ <= 0 || functions_->poll(handle_) != 0; }
  /// Waits at most so long (negative: without limit). STILL_PENDING: the time is over.
  Status Wait(int64_t timeout_ms) {
    if (handle_ <= 0) return error_;
    const int code = functions_->wait(handle_, timeout_ms);
    if (code == FARANDOLE_STILL_PENDING) return Status(StatusCode::kStillPending, "the operation is still pending");
    return StatusOf(*functions_, code);
  }
  /// As Wait without a limit, and releases.
  Status Finish() {
    if (handle_ <= 0) return error_;
    error_ = StatusOf(*functions_, functions_->finish(std::exchange(handle_, 0), -1));
    return error_;
  }
  /// The operation, if it is pending, goes on by itself.
  void Release() {
    if (handle_ > 0) functions_->release(std::exchange(handle_, 0));
  }

 private:
  const Functions* functions_ = nullptr;
  farandole_handle handle_ = 0;  // 0: released
  Status error_;
};

/// The submissions of one grouped call, in the order in which they were made; it is complete when all are. Moves.
class Submissions {
 public:
  Submissions() = default;
  explicit Submissions(std::vector<Submission> all) : all_(std::move(all)) {}
  explicit Submissions(Status error) { all_.emplace_back(std::move(error)); }

  bool is_held() const {
    return std::any_of(all_.begin(), all_.end(), [](const Submission& one) { return one.is_held(); });
  }
  bool IsComplete() const {
    return std::all_of(all_.begin(), all_.end(), [](const Submission& one) { return one.IsComplete(); });
  }
  /// As Submission's, for all of them: the first error, or OK.
  Status Wait(int64_t timeout_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0));
    Status first;
    for (Submission& one : all_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      Status status = one.Wait(timeout_ms < 0 ? -1 : std::max<int64_t>(left, 0));
      if (status.code() == StatusCode::kStillPending) return status;
      if (first.ok() && !status.ok()) first = std::move(status);
    }
    return first;
  }
  Status Finish() {
    Status first = Wait(-1);
    Release();
    return first;
  }
  void Release() {
    for (Submission& one : all_) one.Release();
  }
  std::vector<Submission> TakeAll() && { return std::move(all_); }

 private:
  std::vector<Submission> all_;
};

/// The rows that an allgather, alltoall, gather or scatter has brought: memory of the library, which lives as long as
/// this.
class Gathered {
 public:
  Gathered() = default;
  /// Of a submission that is complete, and well. `shape` is that of this rank's part, `size` that of the process set
  /// when it was submitted: the set may have been removed since.
  static StatusOr<Gathered> Take(Submission submission, const Shape& shape, DType dtype, int size) {
    Gathered made;
    const Functions& functions = submission.functions();
    made.rows_.resize(size > 0 ? static_cast<size_t>(size) : 0);
    const int code = functions.result(submission.handle(), &made.data_, &made.bytes_, made.rows_.data());
    if (code != FARANDOLE_OK) return StatusOf(functions, code);
    made.submission_ = std::move(submission);
    made.dtype_ = dtype;
    int64_t dims[Shape::kMostDimensions] = {};
    std::copy(shape.begin(), shape.end(), dims);
    dims[0] = 0;
    for (const int64_t rows : made.rows_) dims[0] += rows;
    made.shape_ = Shape(dims, std::max<size_t>(static_cast<size_t>(shape.ndim()), 1));
    return made;
  }

  /// How many rows each rank of the process set has given, in their order; together the first number of the shape.
  const std::vector<int64_t>& rows() const { return rows_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// A view, which ends with this object.
  ConstTensor tensor() const { return ConstTensor(data_, shape_, dtype_); }

  /// The elements, copied. INVALID_ARGUMENT: they are of another type.
  template <typename T>
  StatusOr<std::vector<T>> ToVector() const {
    if (ElementOf<T>::value != dtype_) {
      return Status(StatusCode::kInvalidArgument, std::string("the result has elements of ") + NameOf(dtype_) +
                                                      ", and a vector of " + NameOf(ElementOf<T>::value) +
                                                      " is wanted");
    }
    const T* const first = static_cast<const T*>(data_);
    return std::vector<T>(first, first + shape_.count());
  }

 private:
  Submission submission_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<int64_t> rows_;
  Shape shape_;
  DType dtype_ = DType::kU8;
};

/// How a complete submission becomes a result. Each has `Result`, and Take, which gets it when it is complete and well.
struct TakeNothing {
  using Result = Status;
  using Pending = Submission;
  static constexpr bool kIsLeft = false;
  Result Take(Submission&&) { return Status(); }
};
struct TakeGathered {
  using Result = StatusOr<Gathered>;
  using Pending = Submission;
  static constexpr bool kIsLeft = true;
  Shape shape;
  DType dtype = DType::kU8;
  int size = 0;  ///< of the process set
  Result Take(Submission&& submission) { return Gathered::Take(std::move(submission), shape, dtype, size); }
};
/// Of a grouped call without results.
struct TakeNothingOfAll {
  using Result = Status;
  using Pending = Submissions;
  static constexpr bool kIsLeft = false;
  Result Take(Submissions&&) { return Status(); }
};
/// Of a grouped call with a result for each of its tensors.
struct TakeEachGathered {
  using Result = StatusOr<std::vector<Gathered>>;
  using Pending = Submissions;
  static constexpr bool kIsLeft = true;
  std::vector<TakeGathered> each;
  Result Take(Submissions&& submissions) {
    std::vector<Submission> all = std::move(submissions).TakeAll();
    std::vector<Gathered> taken;
    // A call without tensors has one submission and no result.
    for (size_t i = 0; i < each.size(); ++i) {
      StatusOr<Gathered> one = each[i].Take(std::move(all[i]));
      if (!one.ok()) return one.status();
      taken.push_back(*std::move(one));
    }
    return taken;
  }
};
struct TakeLastRank {
  using Result = StatusOr<int>;
  using Pending = Submission;
  static constexpr bool kIsLeft = false;
  std::unique_ptr<int32_t> last;  ///< the library writes there
  Result Take(Submission&&) { return static_cast<int>(*last); }
};

template <typename Before, typename Function>
class Continued;

/// An operation that is on its way. Wait() gives its result once: a Status, or a StatusOr.
///
/// The tensors stay with the library until the operation is complete. So the destructor waits for that; declare a
/// future after its tensors. Detach() leaves the wait out. One thread at a time.
template <typename Taker>
class [[nodiscard]] BasicFuture {
 public:
  using Result = typename Taker::Result;
  using Pending = typename Taker::Pending;

  explicit BasicFuture(Pending submission, Taker taker = {})
      : submission_(std::move(submission)), taker_(std::move(taker)) {}
  BasicFuture(BasicFuture&&) noexcept = default;
  /// Waits for the operation that it had before.
  BasicFuture& operator=(BasicFuture&& other) noexcept {
    Settle();
    submission_ = std::move(other.submission_);
    taker_ = std::move(other.taker_);
    return *this;
  }
  ~BasicFuture() { Settle(); }

  /// True when Wait would not wait. Drives pending work that is ready.
  bool IsReady() const { return submission_.IsComplete(); }
  /// Waits at most so long; the thread that waits does the work meanwhile. STILL_PENDING: the time is over.
  Status WaitFor(std::chrono::milliseconds timeout) { return submission_.Wait(timeout.count()); }
  /// Waits until the operation is complete.
  Result Wait() {
    if constexpr (!Taker::kIsLeft) {
      if (Status status = submission_.Finish(); !status.ok()) return status;
    } else if (Status status = submission_.Wait(-1); !status.ok()) {
      submission_.Release();
      return status;
    }
    return taker_.Take(std::move(submission_));
  }
  /// Returns a future. Its Wait() waits for this operation, calls `function` with the result on the waiting thread, and
  /// returns what the function returns. Allocates nothing.
  template <typename Function>
  Continued<BasicFuture, std::decay_t<Function>> Then(Function&& function) && {
    return {std::move(*this), std::forward<Function>(function)};
  }
  /// Gives up the wait, also in the destructor. The tensors must live until the operation is complete or the job has
  /// ended.
  void Detach() {
    static_assert(!std::is_same_v<Taker, TakeLastRank>, "a join has memory of its own, which its future must keep");
    submission_.Release();
  }

 private:
  void Settle() {
    if (submission_.is_held()) static_cast<void>(submission_.Finish());
  }

  Pending submission_;
  Taker taker_;
};

/// A future with what is to follow it. Its destructor calls the function too, if Wait() was not called.
template <typename Before, typename Function>
class [[nodiscard]] Continued {
 public:
  using Result = std::invoke_result_t<Function&, typename Before::Result>;

  Continued(Before before, Function function) : before_(std::move(before)), function_(std::move(function)) {}
  Continued(Continued&& other) noexcept
      : before_(std::move(other.before_)),
        function_(std::move(other.function_)),
        is_due_(std::exchange(other.is_due_, false)) {}
  Continued& operator=(Continued&&) = delete;
  ~Continued() {
    if (is_due_) static_cast<void>(Wait());
  }

  bool IsReady() const { return before_.IsReady(); }
  Status WaitFor(std::chrono::milliseconds timeout) { return before_.WaitFor(timeout); }
  Result Wait() {
    is_due_ = false;
    return function_(before_.Wait());
  }
  template <typename Next>
  Continued<Continued, std::decay_t<Next>> Then(Next&& next) && {
    return {std::move(*this), std::forward<Next>(next)};
  }

 private:
  Before before_;
  Function function_;
  bool is_due_ = true;
};

using Future = BasicFuture<TakeNothing>;
using GatherFuture = BasicFuture<TakeGathered>;
using GroupedFuture = BasicFuture<TakeNothingOfAll>;
using GroupedGatherFuture = BasicFuture<TakeEachGathered>;
using JoinFuture = BasicFuture<TakeLastRank>;

/// Waits for all of them. The first error, or OK.
template <typename Futures>
Status WaitAll(Futures& futures) {
  Status first;
  for (auto& future : futures) {
    Status status = future.Wait();
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_FUTURE_H_
