#include "worker/engine/submissions/submission_of_request.h"

#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/submissions/book/request_memo.h"

namespace farandole {
namespace {

void ExpectEqual(const Submission& one, const Submission& other) {
  EXPECT_EQ(one.op, other.op);
  EXPECT_EQ(one.dtype, other.dtype);
  EXPECT_EQ(one.reduce_op, other.reduce_op);
  EXPECT_EQ(one.prescale, other.prescale);
  EXPECT_EQ(one.postscale, other.postscale);
  EXPECT_EQ(one.root, other.root);
  EXPECT_EQ(one.group, other.group);
  EXPECT_EQ(one.name, other.name);
  ASSERT_EQ(one.fragments.size(), other.fragments.size());
  for (size_t at = 0; at < one.fragments.size(); ++at) {
    EXPECT_EQ(one.fragments[at].input, other.fragments[at].input);
    EXPECT_EQ(one.fragments[at].output, other.fragments[at].output);
    EXPECT_EQ(one.fragments[at].count, other.fragments[at].count);
  }
  EXPECT_EQ(one.dims, other.dims);
  EXPECT_EQ(one.ndims, other.ndims);
  EXPECT_EQ(one.states_group, other.states_group);
  EXPECT_EQ(one.members.size(), other.members.size());
  EXPECT_EQ(one.after, other.after);
  EXPECT_EQ(one.count, other.count);
  EXPECT_EQ(one.signature, other.signature);
  EXPECT_EQ(one.joins, other.joins);
  EXPECT_EQ(one.splits, other.splits);
  EXPECT_EQ(one.gpu, other.gpu);
}

// A name's memo describes a request as DescribeRequest does.
class DescribedByMemoTest : public ::testing::Test {
 protected:
  void ExpectAsDescribed(const Request& request) {
    const std::vector<int> ranks = {0, 3, 5};
    RequestMemo memo;
    Submission first;
    DescribeRequest(request, "a name", ranks, 1, 4, &first);
    memo.Keep(request, first);
    ASSERT_TRUE(memo.Covers(request));
    Request again = request;
    const TensorView elsewhere = {others_, others_ + 1,
                                  request.tensors.empty() ? absl::Span<const int64_t>() : request.tensors[0].shape};
    if (!request.tensors.empty()) again.tensors = absl::MakeConstSpan(&elsewhere, 1);
    Submission described;
    DescribeRequest(again, "a name", ranks, 1, 5, &described);
    Submission recalled;
    memo.Describe(again, "a name", 5, &recalled);
    ExpectEqual(recalled, described);
  }

  Request RequestOf(OpType op, const TensorView& view) {
    Request request;
    request.op = op;
    request.name = "a name";
    request.dtype = DType::kI32;
    request.tensors = absl::MakeConstSpan(&view, 1);
    return request;
  }

  int32_t values_[8] = {};
  int32_t others_[8] = {};
};

TEST_F(DescribedByMemoTest, AMatrix) {
  const int64_t shape[] = {2, 3};
  const TensorView view = {values_, values_, shape};
  Request request = RequestOf(OpType::kAllreduce, view);
  request.reduce_op = ReduceOp::kMax;
  request.prescale = 0.5;
  request.postscale = -0.0;
  request.group = 2;
  ExpectAsDescribed(request);
}

TEST_F(DescribedByMemoTest, AScalar) {
  const TensorView view = {values_, values_, {}};
  ExpectAsDescribed(RequestOf(OpType::kAllreduce, view));
}

TEST_F(DescribedByMemoTest, AnEmptyTensor) {
  const int64_t shape[] = {4, 0};
  const TensorView view = {values_, values_, shape};
  ExpectAsDescribed(RequestOf(OpType::kAllreduce, view));
}

TEST_F(DescribedByMemoTest, ABarrier) {
  Request request;
  request.op = OpType::kBarrier;
  ExpectAsDescribed(request);
}

// A reduction means nothing there, and is no part of the signature.
TEST_F(DescribedByMemoTest, ABroadcastWithAReduction) {
  const int64_t shape[] = {6};
  const TensorView view = {values_, values_, shape};
  Request request = RequestOf(OpType::kBroadcast, view);
  request.root_rank = 5;
  request.reduce_op = ReduceOp::kMax;
  ExpectAsDescribed(request);
}

}  // namespace
}  // namespace farandole
