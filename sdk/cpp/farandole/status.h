#ifndef FARANDOLE_SDK_CPP_FARANDOLE_STATUS_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_STATUS_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "farandole/c_api.h"

namespace farandole {
inline namespace sdk {

/// The kinds of errors; docs/errors.md has the remedy for each. The numbers are those of the C interface.
enum class StatusCode : int {
  kOk = FARANDOLE_OK,
  /// No error: the time of a wait is over, and the operation goes on.
  kStillPending = FARANDOLE_STILL_PENDING,
  /// The job has no place for this process any more: it was drained, or the job has finished. The program ends well.
  kCancelled = FARANDOLE_CANCELLED,
  /// This call is wrong, or ranks disagree about it; the job goes on.
  kInvalidArgument = FARANDOLE_INVALID_ARGUMENT,
  /// A rank was silent beyond the limit.
  kDeadlineExceeded = FARANDOLE_DEADLINE_EXCEEDED,
  kNotFound = FARANDOLE_NOT_FOUND,
  kAlreadyExists = FARANDOLE_ALREADY_EXISTS,
  kPermissionDenied = FARANDOLE_PERMISSION_DENIED,
  kResourceExhausted = FARANDOLE_RESOURCE_EXHAUSTED,
  /// Not started, stopped already, or forked; or there is no worker library.
  kFailedPrecondition = FARANDOLE_FAILED_PRECONDITION,
  /// The epoch has ended: a worker has died or left. elastic::Run goes on in the next one.
  kAborted = FARANDOLE_ABORTED,
  kUnimplemented = FARANDOLE_UNIMPLEMENTED,
  /// A bug in Farandole.
  kInternal = FARANDOLE_INTERNAL,
  kUnavailable = FARANDOLE_UNAVAILABLE,
  /// A checkpoint fails its checksum.
  kDataLoss = FARANDOLE_DATA_LOSS,
  kUnauthenticated = FARANDOLE_UNAUTHENTICATED,
  /// Of elastic::State only: workers come or go, and all ranks have agreed to leave this epoch.
  kWorkersChange = 64,
};

/// OK, or a code with one sentence: what, who, both values. An OK status costs no memory. Any thread may read it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) {
    if (code != StatusCode::kOk) error_ = std::make_shared<const Error>(Error{code, std::move(message)});
  }

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : error_->code; }
  /// "" if it is OK. Lives as long as this object or a copy of it.
  const std::string& message() const {
    static const std::string empty;
    return ok() ? empty : error_->message;
  }

 private:
  struct Error {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;  // shared with copies, and never changed
};

/// A value, or the error for which there is none.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  /// Takes a value, or an error: not an OK status.
  StatusOr(T value) : value_(std::move(value)) {}
  StatusOr(Status error) : status_(std::move(error)) {
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "an OK status was given where there is no value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  /// Only where ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

/// Where `status` is an error, prints its sentence to stderr and ends the process, as programs do that cannot go on:
/// with code 0 if the job has no place for it any more (CANCELLED), else with 1. The other ranks get it.
inline void ExitOnError(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "farandole: %s\n", status.message().c_str());
  std::exit(status.code() == StatusCode::kCancelled ? 0 : 1);
}
/// The same; gives the value.
template <typename T>
T ExitOnError(StatusOr<T> result) {
  ExitOnError(result.status());
  return *std::move(result);
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_STATUS_H_
