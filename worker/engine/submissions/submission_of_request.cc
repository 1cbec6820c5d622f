#include "worker/engine/submissions/submission_of_request.h"

#include <algorithm>

#include "worker/order/ready_channel.h"

namespace farandole {
namespace {

// One fragment for each position, of which only the own one has an output.
void ShareOut(const TensorView& tensor, int64_t count, size_t positions, int own, Submission* submission) {
  const int64_t rows = tensor.shape[0];
  const int64_t size = static_cast<int64_t>(positions);
  const char* input = static_cast<const char*>(tensor.input);
  for (int64_t position = 0; position < size; ++position) {
    const int64_t share = ShareOfRows(rows, size, position) * (count / rows);
    submission->fragments.push_back({input, position == own ? tensor.output : nullptr, share});
    input += share * static_cast<int64_t>(SizeOf(submission->dtype));
  }
}

void AddTensors(const Request& request, size_t positions, int position, Submission* submission) {
  const OpTraits& traits = TraitsOf(request.op);
  submission->count = 0;
  for (const TensorView& tensor : request.tensors) {
    int64_t count = 1;
    for (int64_t dim : tensor.shape) {
      submission->dims.push_back(dim);
      count *= dim;
    }
    submission->ndims.push_back(static_cast<int32_t>(tensor.shape.size()));
    if (traits.rows == OpTraits::Rows::kGathers && tensor.shape.empty()) {
      submission->dims.push_back(1);
      submission->ndims.back() = 1;
    }
    submission->count += count;
    if (count > 0 && request.op == OpType::kReducescatter) {
      ShareOut(tensor, count, positions, position, submission);
    } else if (count > 0) {
      submission->fragments.push_back({tensor.input, tensor.output, count});
    }
  }
}

}  // namespace

void DescribeRequest(const Request& request, absl::string_view name, absl::Span<const int> ranks, int position,
                     uint32_t joins, Submission* submission) {
  const OpTraits& traits = TraitsOf(request.op);
  submission->op = request.op;
  submission->dtype = request.dtype;
  submission->reduce_op = traits.reduces ? request.reduce_op : ReduceOp::kSum;
  submission->prescale = request.prescale;
  submission->postscale = request.postscale;
  submission->group = request.group;
  submission->gpu = request.gpu;
  submission->ready = request.ready;
  submission->name.assign(name.data(), name.size());
  const auto root = std::lower_bound(ranks.begin(), ranks.end(), request.root_rank);
  submission->root = traits.has_root ? static_cast<int>(root - ranks.begin()) : 0;
  AddTensors(request, ranks.size(), position, submission);
  if (request.op == OpType::kAlltoall) {
    submission->splits.assign(request.splits.begin(), request.splits.end());
    const int64_t size = static_cast<int64_t>(ranks.size());
    if (request.splits.empty()) submission->splits.assign(ranks.size(), submission->rows() / size);
  }
  submission->states_group = request.members != nullptr;
  if (submission->states_group) submission->members = *request.members;
  for (GroupMember& member : submission->members) {
    if (traits.rows == OpTraits::Rows::kGathers && member.dims.empty()) member.dims.push_back(1);  // as above
  }
  submission->after = request.after;
  submission->joins = joins;
  submission->signature = SignatureOf(*submission);
}

}  // namespace farandole
