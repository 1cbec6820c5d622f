#include "worker/engine/submissions/request_check.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(RequestCheckTest, SplitsSuitTheGroupAndTheRows) {
  const int64_t shape[] = {5, 2};
  const TensorView view = {nullptr, nullptr, shape};
  Request request;
  request.op = OpType::kAlltoall;
  request.tensors = absl::MakeConstSpan(&view, 1);
  const auto sentence_for = [&](const std::vector<int64_t>& splits) {
    request.splits = splits;
    return std::string(CheckInGroup("t", request, {0, 1, 2}, 0).message());
  };
  EXPECT_EQ(sentence_for({}), "t: 5 rows cannot be shared out equally to 3 ranks; say by splits how many each gets");
  EXPECT_EQ(sentence_for({2, 3}), "t: there are 2 splits, and the process set has 3 ranks");
  EXPECT_EQ(sentence_for({2, 2, 2}), "t: splits [2,2,2] take more than all of the tensor's 5 rows");
  EXPECT_EQ(sentence_for({3, -1, 3}), "t: splits [3,-1,3] have a negative number of the tensor's 5 rows");
  EXPECT_EQ(sentence_for({2, 0, 3}), "");
  EXPECT_EQ(sentence_for({2, 0, 2}), "") << "rows may be left out";
}

TEST(RequestCheckTest, AScalarHasNoRowsToShareOut) {
  const TensorView view;
  Request request;
  request.tensors = absl::MakeConstSpan(&view, 1);
  request.op = OpType::kAlltoall;
  EXPECT_EQ(CheckRequest("t", request).message(),
            "t: an alltoall shares out the rows of a tensor, and a scalar has none");
  request.op = OpType::kReducescatter;
  EXPECT_EQ(CheckRequest("t", request).message(),
            "t: a reducescatter shares out the rows of a tensor, and a scalar has none");
}

}  // namespace
}  // namespace farandole
