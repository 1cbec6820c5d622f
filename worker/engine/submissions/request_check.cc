#include "worker/engine/submissions/request_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/plain_text.h"
#include "base/text/utf8_text.h"
#include "worker/device/nccl/nccl_reduction.h"
#include "worker/order/ready_channel.h"

namespace farandole {
namespace {

constexpr size_t kMaxDimensions = 32;
constexpr size_t kMaxTensors = 65536;
constexpr size_t kMaxNameBytes = 512;
constexpr absl::string_view kUnnamed = "unnamed.";
// Of all tensors of a submission: transports count chunks of 256 KiB in 20 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 37;

// `*room`: the bytes that the tensors may still have.
absl::Status CheckTensor(absl::string_view name, DType dtype, const TensorView& tensor, int64_t* room) {
  if (tensor.shape.size() > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", tensor.shape.size(), " dimensions, at most ", kMaxDimensions, " are allowed"));
  }
  for (int64_t dim : tensor.shape) {
    if (dim < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": shape [", absl::StrJoin(tensor.shape, ","), "] has a negative dimension"));
    }
  }
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  bool is_empty = false;
  for (int64_t dim : tensor.shape) {
    is_empty = is_empty || dim == 0;
    // Without the zeros, since the remaining dimensions of an empty tensor are multiplied as well.
    if (dim == 0) continue;
    if (bytes > kMaxBytes / dim) bytes = kMaxBytes + 1;
    if (bytes > kMaxBytes) break;
    bytes *= dim;
  }
  if (bytes > kMaxBytes || (!is_empty && bytes > *room)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": shape [", absl::StrJoin(tensor.shape, ","), "] of ",
                                                   Name(dtype), " makes more than ", kMaxBytes,
                                                   " bytes, the most that one submission can have"));
  }
  if (!is_empty) *room -= bytes;
  return absl::OkStatus();
}

// "an alltoall", "a reducescatter"
std::string WithArticle(absl::string_view noun) {
  return absl::StrCat(absl::StrContains("aeiou", noun[0]) ? "an " : "a ", noun);
}

absl::Status CheckName(absl::string_view name, const Request& request) {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor's name has ", name.size(), " bytes, at most ",
                                                   kMaxNameBytes, " are allowed: ", Plain(name, 64)));
  }
  if (absl::Status status = CheckNameText(name); !status.ok()) return status;
  if (!request.name.empty() && absl::StartsWith(name, kUnnamed)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": names that start with \"unnamed.\" are reserved"));
  }
  return absl::OkStatus();
}

absl::Status CheckTensorCount(absl::string_view name, const Request& request) {
  const size_t tensors = request.tensors.size();
  if (request.op == OpType::kJoin) {
    if (tensors == 1 && request.group == 0 && request.dtype == DType::kI32 && request.tensors[0].shape.empty())
      return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": joins all ranks, and gives a rank as one int32"));
  }
  const OpTraits& traits = TraitsOf(request.op);
  if (traits.tensors == OpTraits::Tensors::kOne && tensors != 1)
    return absl::InvalidArgumentError(absl::StrCat(name, ": takes one tensor, not ", tensors));
  if (traits.tensors == OpTraits::Tensors::kNone && tensors != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", WithArticle(traits.name), " takes no tensor, not ", tensors));
  }
  if (traits.rows != OpTraits::Rows::kSharesOut || !request.tensors[0].shape.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", WithArticle(traits.name), " shares out the rows of a tensor, and a scalar has none"));
}

absl::Status CheckTensors(absl::string_view name, const Request& request) {
  if (absl::Status status = CheckTensorCount(name, request); !status.ok()) return status;
  const size_t tensors = request.tensors.size();
  if (tensors > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": groups ", tensors, " tensors, at most ", kMaxTensors, " are allowed"));
  }
  int64_t room = kMaxBytes;
  for (const TensorView& tensor : request.tensors) {
    if (absl::Status status = CheckTensor(name, request.dtype, tensor, &room); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckAdasum(absl::string_view name, const Request& request) {
  if (request.reduce_op != ReduceOp::kAdasum) return absl::OkStatus();
  if (request.op != OpType::kAllreduce)
    return absl::InvalidArgumentError(absl::StrCat(name, ": Adasum is for allreduce only"));
  if (!IsFloating(request.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": Adasum is for floating-point tensors, not for ", Name(request.dtype)));
  }
  if (request.tensors.size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": Adasum combines tensors each by itself, not ", request.tensors.size(), " as one"));
}

absl::Status CheckSplits(absl::string_view name, const Request& request, int64_t size) {
  const absl::Span<const int64_t> splits = request.splits;
  const int64_t rows = request.tensors[0].shape[0];
  if (splits.empty()) {
    if (rows % size == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", rows, " rows cannot be shared out equally to ", size,
                                                   " ranks; say by splits how many each gets"));
  }
  if (static_cast<int64_t>(splits.size()) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there are ", splits.size(), " splits, and the process set has ", size, " ranks"));
  }
  int64_t left = rows;
  for (const int64_t split : splits) {
    if (split < 0 || split > left) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": splits [", absl::StrJoin(splits, ","), "] ",
                                                     split < 0 ? "have a negative number" : "take more than all",
                                                     " of the tensor's ", rows, " rows"));
    }
    left -= split;
  }
  return absl::OkStatus();
}

absl::Status CheckShare(absl::string_view name, const Request& request, int64_t size, int64_t position) {
  const TensorView& tensor = request.tensors[0];
  if (tensor.output != nullptr || std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end())
    return absl::OkStatus();
  if (ShareOfRows(tensor.shape[0], size, position) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": this rank gets a part of the rows, but its output is NULL"));
}

}  // namespace

absl::Status CheckNameText(absl::string_view name) { return CheckUtf8("the tensor's name", name); }

absl::Status CheckRequest(absl::string_view name, const Request& request) {
  if (absl::Status status = CheckName(name, request); !status.ok()) return status;
  if (absl::Status status = CheckTensors(name, request); !status.ok()) return status;
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": scale factors must be finite, not ", request.prescale, " and ", request.postscale));
  }
  if (Reduces(request.op)) {
    if (absl::Status status = CheckAdasum(name, request); !status.ok()) return status;
    if (request.reduce_op == ReduceOp::kAverage && request.dtype == DType::kBool) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": there is no average of bool; reduce with sum, min or max"));
    }
  }
  if (request.gpu == nullptr) return absl::OkStatus();
  return CheckForNccl(name, request.op, request.dtype, request.reduce_op, request.prescale, request.postscale,
                      {request.nccl_version, request.gpu->capability()});
}

absl::Status CheckInGroup(absl::string_view name, const Request& request, absl::Span<const int> ranks, int position) {
  const int64_t size = static_cast<int64_t>(ranks.size());
  if (TraitsOf(request.op).has_root && !std::binary_search(ranks.begin(), ranks.end(), request.root_rank)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": root rank ", request.root_rank, " is not in process set ",
                                                   request.group, " of ranks [", absl::StrJoin(ranks, ","), "]"));
  }
  if (request.op == OpType::kAlltoall) return CheckSplits(name, request, size);
  if (request.op == OpType::kReducescatter) return CheckShare(name, request, size, position);
  return absl::OkStatus();
}

}  // namespace farandole
