#include "worker/engine/submissions/book/request_memo.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

class RequestMemoTest : public ::testing::Test {
 protected:
  RequestMemoTest() {
    request_.name = "t";
    request_.tensors = absl::MakeConstSpan(&view_, 1);
    submission_.count = 6;
    submission_.signature = 77;
  }

  float values_[6] = {};
  float others_[6] = {};
  int64_t shape_[2] = {2, 3};
  TensorView view_ = {values_, values_, shape_};
  Request request_;
  Submission submission_;
  RequestMemo memo_;
};

TEST_F(RequestMemoTest, CoversWhatDiffersInNothingButItsMemory) {
  EXPECT_FALSE(memo_.Covers(request_));
  memo_.Keep(request_, submission_);
  EXPECT_TRUE(memo_.Covers(request_));
  const int64_t equal[] = {2, 3};
  const TensorView elsewhere = {others_, others_, equal};
  request_.tensors = absl::MakeConstSpan(&elsewhere, 1);
  EXPECT_TRUE(memo_.Covers(request_));
}

TEST_F(RequestMemoTest, CoversNothingElse) {
  memo_.Keep(request_, submission_);
  const std::vector<GroupMember> members;
  const TensorView two[] = {view_, view_};
  const int64_t wide[] = {3, 2};
  const TensorView other_shape = {values_, values_, wide};
  const TensorView flat = {values_, values_, absl::MakeConstSpan(shape_, 1)};
  const std::function<void(Request*)> changes[] = {
      [](Request* one) { one->op = OpType::kBroadcast; },
      [](Request* one) { one->dtype = DType::kI32; },
      [](Request* one) { one->reduce_op = ReduceOp::kMax; },
      [](Request* one) { one->prescale = 2; },
      [](Request* one) { one->postscale = -0.0; },
      [](Request* one) { one->root_rank = 1; },
      [](Request* one) { one->name = ""; },
      [](Request* one) { one->after = 1; },
      [&](Request* one) { one->members = &members; },
      [&](Request* one) { one->tensors = two; },
      [&](Request* one) { one->tensors = absl::MakeConstSpan(&other_shape, 1); },
      [&](Request* one) { one->tensors = absl::MakeConstSpan(&flat, 1); },
      [&](Request* one) { one->tensors = {}; },
  };
  for (const auto& change : changes) {
    Request other = request_;
    change(&other);
    EXPECT_FALSE(memo_.Covers(other)) << &change - changes;
  }
  Request other = request_;
  other.postscale = 0.0;
  memo_.Keep(other, submission_);
  other.postscale = -0.0;
  EXPECT_FALSE(memo_.Covers(other)) << "the sign of a zero is part of the signature";
}

TEST_F(RequestMemoTest, ForgetsWhatItCannotKeep) {
  memo_.Keep(request_, submission_);
  Request other = request_;
  other.op = OpType::kReducescatter;
  memo_.Keep(other, submission_);
  EXPECT_FALSE(memo_.Covers(other));
  EXPECT_FALSE(memo_.Covers(request_));
  const std::vector<int64_t> ones(5, 1);
  const TensorView deep = {values_, values_, ones};
  other = request_;
  other.tensors = absl::MakeConstSpan(&deep, 1);
  memo_.Keep(other, submission_);
  EXPECT_FALSE(memo_.Covers(other));
}

TEST_F(RequestMemoTest, DescribesARequestAsTheKeptOne) {
  memo_.Keep(request_, submission_);
  Submission described;
  described.name = "another";
  memo_.Describe(request_, "t", 4, &described);
  EXPECT_EQ(described.name, "t");
  EXPECT_EQ(described.signature, 77u);
  EXPECT_EQ(described.count, 6);
  EXPECT_EQ(described.joins, 4u);
  ASSERT_EQ(described.fragments.size(), 1u);
  EXPECT_EQ(described.fragments[0].input, values_);
  EXPECT_EQ(described.fragments[0].count, 6);
  EXPECT_EQ(std::vector<int64_t>(described.dims.begin(), described.dims.end()), (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(described.ndims.size(), 1u);
  EXPECT_EQ(described.ndims[0], 2);
}

}  // namespace
}  // namespace farandole
