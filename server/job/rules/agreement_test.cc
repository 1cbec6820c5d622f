#include "server/job/rules/agreement.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

v1::Ready MakeReady(v1::OpType op) {
  v1::Ready ready;
  ready.set_name("t");
  ready.set_op(op);
  ready.set_dtype(v1::DTYPE_F32);
  ready.set_reduce_op(v1::REDUCE_OP_SUM);
  ready.add_shape(4);
  ready.add_shape(8);
  ready.set_prescale(1);
  ready.set_postscale(1);
  return ready;
}

v1::Ready MakeGrouped(v1::OpType op) {
  v1::Ready ready = MakeReady(op);
  ready.clear_shape();
  for (const int64_t columns : {8, 2}) {
    v1::Shape* shape = ready.add_grouped_shapes();
    shape->add_dims(4);
    shape->add_dims(columns);
  }
  return ready;
}

// Each way in which one rank's statement can differ from another's.
struct Change {
  std::string name;
  std::function<void(v1::Ready*)> apply;
  // How the two values are shown.
  std::string before, after;
};

const std::vector<Change>& Changes() {
  static const auto* const changes = new std::vector<Change>{
      {"dtype", [](v1::Ready* r) { r->set_dtype(v1::DTYPE_F64); }, "dtype float32", "dtype float64"},
      {"reduce_op", [](v1::Ready* r) { r->set_reduce_op(v1::REDUCE_OP_MAX); }, "reduce op sum", "reduce op max"},
      {"first_dim", [](v1::Ready* r) { r->set_shape(0, 5); }, "shape [4,8]", "shape [5,8]"},
      {"other_dim", [](v1::Ready* r) { r->set_shape(1, 9); }, "8]", "9]"},
      {"dims", [](v1::Ready* r) { r->add_shape(1); }, "8]", "8,1]"},
      {"prescale", [](v1::Ready* r) { r->set_prescale(0.5); }, "prescale 1", "prescale 0.5"},
      {"postscale", [](v1::Ready* r) { r->set_postscale(1 + 1e-12); }, "postscale 1,", "postscale 1.00000000000"},
      {"root", [](v1::Ready* r) { r->set_root(1); }, "root 0", "root 1"},
      {"device", [](v1::Ready* r) { r->set_device(v1::DEVICE_KIND_CUDA); }, "device cpu", "device cuda"},
  };
  return *changes;
}

// Which changes matter to which op.
const std::map<v1::OpType, std::set<std::string>>& Rules() {
  static const std::set<std::string> reduces = {"dtype", "reduce_op", "first_dim", "other_dim",
                                                "dims",  "prescale",  "postscale", "device"};
  static const std::set<std::string> gathers = {"dtype", "other_dim", "dims", "device"};
  static const auto* const rules = new std::map<v1::OpType, std::set<std::string>>{
      {v1::OP_TYPE_ALLREDUCE, reduces},
      {v1::OP_TYPE_REDUCESCATTER, reduces},
      {v1::OP_TYPE_ALLGATHER, gathers},
      {v1::OP_TYPE_ALLTOALL, gathers},
      {v1::OP_TYPE_BROADCAST, {"dtype", "first_dim", "other_dim", "dims", "root", "device"}},
      {v1::OP_TYPE_BARRIER, {}},
      {v1::OP_TYPE_JOIN, {}},
      {v1::OP_TYPE_GATHER, {"dtype", "other_dim", "dims", "root", "device"}},
      {v1::OP_TYPE_SCATTER, {"dtype", "other_dim", "dims", "root", "device"}},
  };
  return *rules;
}

TEST(AgreementTest, EveryOpOfTheProtocolHasARule) {
  EXPECT_EQ(Rules().size(), static_cast<size_t>(v1::OpType_ARRAYSIZE));
  for (const auto& [op, matters] : Rules()) EXPECT_EQ(FaultOf(MakeReady(op), 4), "");
}

TEST(AgreementTest, EachFieldMattersExactlyToTheOpsThatNeedIt) {
  for (const auto& [op, matters] : Rules()) {
    for (const Change& change : Changes()) {
      const v1::Ready a = MakeReady(op);
      v1::Ready b = a;
      change.apply(&b);
      EXPECT_EQ(Agree(a, b), matters.count(change.name) == 0) << v1::OpType_Name(op) << " " << change.name;
      EXPECT_EQ(Disagreement(0, a, 1, b).empty(), Agree(a, b));
    }
  }
}

TEST(AgreementTest, TheSentenceNamesTwoRanksAndBothValues) {
  for (const auto& [op, matters] : Rules()) {
    for (const Change& change : Changes()) {
      if (matters.count(change.name) == 0) continue;
      const v1::Ready a = MakeReady(op);
      v1::Ready b = a;
      change.apply(&b);
      const std::string sentence = Disagreement(3, a, 5, b);
      EXPECT_EQ(sentence.rfind("rank 3 has ", 0), 0u) << sentence;
      EXPECT_NE(sentence.find(", rank 5 has "), std::string::npos) << sentence;
      const size_t before = sentence.find(change.before), after = sentence.rfind(change.after);
      EXPECT_NE(before, std::string::npos) << sentence;
      EXPECT_NE(after, std::string::npos) << sentence;
      EXPECT_LT(before, after) << sentence;
    }
  }
  EXPECT_EQ(Disagreement(0, MakeReady(v1::OP_TYPE_ALLREDUCE), 1, MakeReady(v1::OP_TYPE_BROADCAST)),
            "rank 0 has op allreduce, rank 1 has op broadcast");
}

TEST(AgreementTest, AnyTwoOpsDisagree) {
  for (const auto& [a, a_rules] : Rules()) {
    for (const auto& [b, b_rules] : Rules()) EXPECT_EQ(Agree(MakeReady(a), MakeReady(b)), a == b);
  }
}

TEST(AgreementTest, TensorsOfAGroupedCallAgreeOneByOne) {
  v1::Ready a = MakeGrouped(v1::OP_TYPE_ALLREDUCE), b = a;
  EXPECT_TRUE(Agree(a, b));
  b.mutable_grouped_shapes(1)->set_dims(0, 5);
  EXPECT_EQ(Disagreement(0, a, 1, b),
            "rank 0 has shape [4,2] for grouped tensor 1, rank 1 has shape [5,2] for grouped tensor 1");
  a.set_op(v1::OP_TYPE_ALLGATHER);
  b.set_op(v1::OP_TYPE_ALLGATHER);
  EXPECT_TRUE(Agree(a, b));
  b.mutable_grouped_shapes(1)->set_dims(1, 3);
  EXPECT_EQ(Disagreement(0, a, 1, b),
            "rank 0 has shape [*,2] for grouped tensor 1, rank 1 has shape [*,3] for grouped tensor 1");
  b.mutable_grouped_shapes()->RemoveLast();
  EXPECT_EQ(Disagreement(0, a, 1, b), "rank 0 has 2 grouped tensors, rank 1 has 1 grouped tensor");
}

TEST(AgreementTest, AGroupedCallStatesTheElementTypeAndDeviceOfEachTensor) {
  v1::Ready a = MakeGrouped(v1::OP_TYPE_ALLREDUCE);
  for (v1::Shape& shape : *a.mutable_grouped_shapes()) {
    shape.set_dtype(v1::DTYPE_F32);
    shape.set_device(v1::DEVICE_KIND_CPU);
  }
  v1::Ready b = a;
  EXPECT_TRUE(Agree(a, b));
  b.mutable_grouped_shapes(1)->set_device(v1::DEVICE_KIND_CUDA);
  EXPECT_EQ(Disagreement(0, a, 1, b),
            "rank 0 has device cpu for grouped tensor 1, rank 1 has device cuda for grouped tensor 1");
  b.mutable_grouped_shapes(1)->set_dtype(v1::DTYPE_F64);
  EXPECT_EQ(Disagreement(0, a, 1, b),
            "rank 0 has dtype float32 for grouped tensor 1, rank 1 has dtype float64 for grouped tensor 1");
}

TEST(AgreementTest, AGroupedCallMayHaveNoTensor) {
  v1::Ready one = MakeReady(v1::OP_TYPE_ALLREDUCE), none = one;
  none.clear_shape();
  none.set_is_empty_group(true);
  EXPECT_EQ(FaultOf(none, 2), "");
  EXPECT_TRUE(Agree(none, none));
  EXPECT_EQ(Disagreement(0, none, 1, one), "rank 0 has 0 grouped tensors, rank 1 has 1 grouped tensor");
  const v1::Ready two = MakeGrouped(v1::OP_TYPE_ALLREDUCE);
  EXPECT_EQ(Disagreement(0, two, 1, none), "rank 0 has 2 grouped tensors, rank 1 has 0 grouped tensors");
}

struct Fault {
  std::string sentence;
  std::function<void(v1::Ready*)> apply;
};

TEST(AgreementTest, AStatementThatIsWrongByItselfIsNamed) {
  const std::vector<Fault> faults = {
      {"has op 99, which this coordinator does not know", [](v1::Ready* r) { r->set_op(static_cast<v1::OpType>(99)); }},
      {"has dtype 77, which this coordinator does not know",
       [](v1::Ready* r) { r->set_dtype(static_cast<v1::DType>(77)); }},
      {"has reduce op 66, which this coordinator does not know",
       [](v1::Ready* r) { r->set_reduce_op(static_cast<v1::ReduceOp>(66)); }},
      {"has device 55, which this coordinator does not know",
       [](v1::Ready* r) { r->set_device(static_cast<v1::DeviceKind>(55)); }},
      {"has prescale nan, which is not finite", [](v1::Ready* r) { r->set_prescale(std::nan("")); }},
      {"has postscale inf, which is not finite",
       [](v1::Ready* r) { r->set_postscale(std::numeric_limits<double>::infinity()); }},
      {"has shape [4,-8]; no dimension may be negative", [](v1::Ready* r) { r->set_shape(1, -8); }},
      {"has 33 dimensions; 32 is the most", [](v1::Ready* r) { r->mutable_shape()->Resize(33, 1); }},
      {"has both shape [4,8] and grouped shapes", [](v1::Ready* r) { r->add_grouped_shapes(); }},
      {"has shape [-1]; no dimension may be negative",
       [](v1::Ready* r) {
         r->clear_shape();
         r->add_grouped_shapes()->add_dims(-1);
       }},
      {"has 65537 grouped tensors; 65536 is the most",
       [](v1::Ready* r) {
         for (int i = 0; i <= 65536; ++i) r->add_grouped_shapes();
       }},
  };
  for (const Fault& fault : faults) {
    v1::Ready ready = MakeReady(v1::OP_TYPE_ALLREDUCE);
    fault.apply(&ready);
    EXPECT_EQ(FaultOf(ready, 4), fault.sentence);
  }
}

TEST(AgreementTest, TheRootIsARankOfTheGroup) {
  v1::Ready ready = MakeReady(v1::OP_TYPE_BROADCAST);
  for (size_t size = 1; size <= 8; ++size) {
    for (uint32_t root = 0; root <= 8; ++root) {
      ready.set_root(root);
      EXPECT_EQ(FaultOf(ready, size).empty(), root < size);
    }
  }
}

TEST(AgreementTest, OpsThatSplitTheFirstDimensionNeedOne) {
  for (const auto& [op, matters] : Rules()) {
    v1::Ready ready = MakeReady(op);
    ready.clear_shape();
    static const std::set<v1::OpType> splitting = {v1::OP_TYPE_ALLGATHER, v1::OP_TYPE_ALLTOALL,
                                                   v1::OP_TYPE_REDUCESCATTER, v1::OP_TYPE_GATHER, v1::OP_TYPE_SCATTER};
    EXPECT_EQ(FaultOf(ready, 2).empty(), splitting.count(op) == 0) << v1::OpType_Name(op);
  }
}

}  // namespace
}  // namespace farandole
