#include "worker/engine/submissions/book/submission.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

class NamedAllreduceTest : public ::testing::Test {
 protected:
  NamedAllreduceTest() {
    call_.name = "t";
    call_.input = call_.output = values_;
    call_.shape = shape_;
    call_.dtype = static_cast<int32_t>(DType::kF32);
    call_.reduce_op = static_cast<int32_t>(ReduceOp::kSum);
    call_.postscale = 0.0;
    submission_.op = OpType::kAllreduce;
    submission_.name = "t";
    submission_.reduce_op = ReduceOp::kSum;
    submission_.postscale = 0.0;
    submission_.dims = {2, 3};
    submission_.ndims = {2};
    submission_.fragments.push_back({others_, others_, 6});
  }

  float values_[6] = {};
  float others_[6] = {};
  std::vector<int64_t> shape_ = {2, 3};
  NamedAllreduce call_;
  Submission submission_;
};

TEST_F(NamedAllreduceTest, IsThatOfTheSubmissionWhereverItsTensorLies) { EXPECT_TRUE(IsOf(call_, submission_)); }

TEST_F(NamedAllreduceTest, ACallThatDiffersIsNotThatOfTheSubmission) {
  const std::vector<int64_t> turned = {3, 2};
  const std::vector<int64_t> flat = {6};
  const std::vector<int64_t> deep = {2, 3, 1};
  const std::function<void(NamedAllreduce*)> changes[] = {
      [](NamedAllreduce* one) { one->name = "u"; },
      [](NamedAllreduce* one) { one->name = ""; },
      [](NamedAllreduce* one) { one->name = "tt"; },
      [&](NamedAllreduce* one) { one->shape = turned; },
      [&](NamedAllreduce* one) { one->shape = flat; },
      [&](NamedAllreduce* one) { one->shape = deep; },
      [](NamedAllreduce* one) { one->shape = {}; },
      [](NamedAllreduce* one) { one->dtype = static_cast<int32_t>(DType::kI32); },
      [](NamedAllreduce* one) { one->dtype = -1; },
      // An integer of 8 bits would not tell it from the submission's.
      [](NamedAllreduce* one) { one->dtype += 256; },
      [](NamedAllreduce* one) { one->reduce_op = static_cast<int32_t>(ReduceOp::kMax); },
      [](NamedAllreduce* one) { one->reduce_op += 256; },
      [](NamedAllreduce* one) { one->group = 1; },
      [](NamedAllreduce* one) { one->group = -1; },
      [](NamedAllreduce* one) { one->prescale = 2.0; },
      [](NamedAllreduce* one) { one->postscale = 1.0; },
      [](NamedAllreduce* one) { one->postscale = -0.0; },
  };
  for (const auto& change : changes) {
    NamedAllreduce other = call_;
    change(&other);
    EXPECT_FALSE(IsOf(other, submission_)) << "change " << &change - changes;
  }
}

TEST_F(NamedAllreduceTest, NoneIsThatOfAnotherOpOrOfSeveralTensorsOrOfNone) {
  submission_.op = OpType::kReducescatter;
  EXPECT_FALSE(IsOf(call_, submission_));
  submission_.op = OpType::kAllreduce;
  submission_.fragments.push_back({others_, others_, 6});
  EXPECT_FALSE(IsOf(call_, submission_));
  submission_.fragments.clear();
  EXPECT_FALSE(IsOf(call_, submission_));
}

// Two tensors of 2 and 3 elements have the dimensions of one of 2 x 3, but are not that one.
TEST_F(NamedAllreduceTest, TwoTensorsAreNotOneOfBothTheirDimensions) {
  submission_.ndims = {1, 1};
  EXPECT_FALSE(IsOf(call_, submission_));
}

TEST_F(NamedAllreduceTest, NamesThatProgramsUseHaveDifferentKeys) {
  std::vector<std::string> names = {"", "t", "tt", "a name that ends alike", "b name that ends alike"};
  for (int layer = 0; layer < 48; ++layer) {
    const std::string number = std::to_string(layer);
    for (const char* const kind : {"weight", "bias"}) {
      names.push_back("layer" + number + "." + kind);
      names.push_back("grad/" + number + "/" + kind);
      names.push_back(number + kind);
    }
  }
  std::set<uint64_t> keys;
  for (const std::string& name : names) EXPECT_TRUE(keys.insert(NamedAllreduce::KeyOf(name)).second) << name;
  EXPECT_EQ(keys.count(0), 0u) << "0 is the key of no name";
}

}  // namespace
}  // namespace farandole
