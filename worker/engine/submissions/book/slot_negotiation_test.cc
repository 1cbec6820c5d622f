#include "worker/engine/submissions/book/slot_negotiation.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NamesLink final : public ControlLink {
 public:
  void Negotiate(const Submission& submission, uint32_t, uint32_t disputed_slot, uint32_t, uint32_t) override {
    said.push_back(submission.name + (disputed_slot == 0 ? "" : " disputed"));
  }
  void ReportRetired(uint32_t slot) override { said.push_back("retired " + std::to_string(slot)); }
  std::vector<std::string> Take() { return std::exchange(said, {}); }

  std::vector<std::string> said;
};

class SlotNegotiationTest : public ::testing::Test {
 protected:
  SlotNegotiationTest() {
    for (const char* name : {"a", "b", "c"}) {
      submissions_.emplace_back(std::make_unique<Submission>());
      submissions_.back()->name = name;
      given_.push_back(names_.FindOrAdd(names_.FindGroup(0), 0, name));
      given_.back()->waiting.push_back(submissions_.back().get());
    }
  }

  NameTable names_{0, 2, /*most_asked=*/1};
  OwnJoin join_;
  NamesLink link_;
  std::vector<std::unique_ptr<Submission>> submissions_;
  std::vector<NameTable::Name*> given_;
  SlotNegotiation negotiation_{&link_, &names_, &join_};
};

TEST_F(SlotNegotiationTest, NamesAreAskedForInTheirTurn) {
  for (NameTable::Name* name : given_) negotiation_.Ask(name);
  EXPECT_THAT(link_.Take(), ElementsAre("a"));
  negotiation_.EndAsking(given_[0]);
  EXPECT_THAT(link_.Take(), ElementsAre("b"));
  negotiation_.EndAsking(given_[1]);
  negotiation_.EndAsking(given_[2]);
  EXPECT_THAT(link_.Take(), ElementsAre("c"));
  negotiation_.CountAnswer();
  EXPECT_EQ(negotiation_.messages(), 4u);
}

TEST_F(SlotNegotiationTest, DisputesAndRetiredSlotsAreTold) {
  negotiation_.DescribeDispute(*submissions_[0], 3, 1);
  negotiation_.ReportRetired(3);
  EXPECT_THAT(link_.Take(), ElementsAre("a disputed", "retired 3"));
}

TEST_F(SlotNegotiationTest, ARankAloneAsksNobody) {
  SlotNegotiation alone(nullptr, &names_, &join_);
  EXPECT_TRUE(alone.is_alone());
  alone.Ask(given_[0]);
  alone.ReportRetired(3);
  EXPECT_THAT(link_.Take(), IsEmpty());
  EXPECT_EQ(alone.messages(), 0u);
}

}  // namespace
}  // namespace farandole
