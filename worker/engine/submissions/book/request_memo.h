#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_REQUEST_MEMO_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_REQUEST_MEMO_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/dtype.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// A request under a name that was checked and described before. Programs submit the same tensors again and again: those
// need neither another check nor another signature. Plain value; addresses are no part of it.
class RequestMemo {
 public:
  // Keeps a checked request of the name's group and the submission that describes it; forgets the one before, also if
  // this one is not of a kind that it keeps.
  void Keep(const Request& request, const Submission& submission) {
    is_kept_ = IsSimple(request);
    if (!is_kept_) return;
    terms_ = Terms(request);
    if (!request.tensors.empty()) {
      const absl::Span<const int64_t> shape = request.tensors[0].shape;
      std::copy(shape.begin(), shape.end(), dims_.begin());
    }
    root_ = submission.root;
    count_ = submission.count;
    signature_ = submission.signature;
  }
  // Whether `request` differs from the kept one at most in where its tensor lies.
  bool Covers(const Request& request) const {
    if (!is_kept_ || !IsSimple(request)) return false;
    const Terms terms(request);
    if (std::memcmp(static_cast<const void*>(&terms), static_cast<const void*>(&terms_), sizeof(terms)) != 0)
      return false;
    return terms.dimensions <= 0 ||
           std::equal(dims_.begin(), dims_.begin() + terms.dimensions, request.tensors[0].shape.begin());
  }
  // As DescribeRequest does, for a request that it covers.
  void Describe(const Request& request, absl::string_view name, uint32_t joins, Submission* submission) const {
    submission->op = request.op;
    submission->dtype = request.dtype;
    submission->reduce_op = TraitsOf(request.op).reduces ? request.reduce_op : ReduceOp::kSum;
    submission->prescale = request.prescale;
    submission->postscale = request.postscale;
    submission->group = request.group;
    if (submission->name != name) submission->name.assign(name.data(), name.size());
    submission->root = root_;
    submission->count = count_;
    if (terms_.dimensions >= 0) {
      submission->dims.assign(dims_.begin(), dims_.begin() + terms_.dimensions);
      submission->ndims.push_back(terms_.dimensions);
      if (count_ > 0) submission->fragments.push_back({request.tensors[0].input, request.tensors[0].output, count_});
    }
    submission->states_group = false;
    submission->after = 0;
    submission->joins = joins;
    submission->signature = signature_;
  }
  // The op of the kept request; nothing: none is kept.
  std::optional<OpType> op() const {
    if (!is_kept_) return std::nullopt;
    return static_cast<OpType>(terms_.op);
  }
  // This rank's input.
  int64_t bytes() const {
    return is_kept_ ? count_ * static_cast<int64_t>(SizeOf(static_cast<DType>(terms_.dtype))) : 0;
  }

 private:
  static constexpr size_t kMostDimensions = 4;

  // Compared bit by bit, since the sign of a zero is part of the signature.
  struct Terms {
    Terms() = default;
    explicit Terms(const Request& request)
        : prescale(request.prescale),
          postscale(request.postscale),
          root_rank(request.root_rank),
          dimensions(request.tensors.empty() ? -1 : static_cast<int32_t>(request.tensors[0].shape.size())),
          op(static_cast<int32_t>(request.op)),
          dtype(static_cast<uint8_t>(request.dtype)),
          reduce_op(static_cast<uint8_t>(request.reduce_op)),
          is_named(request.name.empty() ? 0 : 1) {}
    double prescale = 0;
    double postscale = 0;
    int32_t root_rank = 0;
    int32_t dimensions = 0;  // -1: no tensor
    int32_t op = 0;
    uint8_t dtype = 0;
    uint8_t reduce_op = 0;
    uint16_t is_named = 0;
  };
  static_assert(sizeof(Terms) == 32, "it has no gaps, as it is compared byte by byte");

  // One tensor of the host, or none, and no terms that only some ops have.
  static bool IsSimple(const Request& request) {
    return request.tensors.size() <= 1 && request.members == nullptr && request.after == 0 && request.gpu == nullptr &&
           TraitsOf(request.op).may_be_inline && TraitsOf(request.op).rows == OpTraits::Rows::kNone &&
           (request.tensors.empty() || request.tensors[0].shape.size() <= kMostDimensions);
  }

  bool is_kept_ = false;
  Terms terms_;
  std::array<int64_t, kMostDimensions> dims_ = {};
  int root_ = 0;
  int64_t count_ = 0;
  uint64_t signature_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_REQUEST_MEMO_H_
