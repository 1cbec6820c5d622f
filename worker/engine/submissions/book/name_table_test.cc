#include "worker/engine/submissions/book/name_table.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

using Name = NameTable::Name;

class NameTableTest : public testing::Test {
 protected:
  Name* Add(const std::string& name, uint32_t group = 0) {
    return names_.FindOrAdd(names_.FindGroup(group), group, name);
  }

  NameTable names_{/*rank=*/2, /*size=*/4, /*most_asked=*/2};
};

TEST_F(NameTableTest, AGroupHasItsRanksAndThisRanksPosition) {
  EXPECT_EQ(names_.group(0).ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(names_.group(0).position, 2);
  names_.AddGroup(3, {1, 2}, absl::OkStatus());
  EXPECT_EQ(names_.group(3).position, 1);
  names_.AddGroup(4, {0, 3}, absl::AbortedError("over"));
  EXPECT_EQ(names_.group(4).position, -1);
  EXPECT_EQ(names_.group(4).broken, absl::AbortedError("over"));
  EXPECT_EQ(names_.FindGroup(5), nullptr);
  EXPECT_EQ(names_.Ranks().size(), 2u) << "all but group 0";
}

TEST_F(NameTableTest, ARemovedGroupTakesItsNamesAndSlotsAlong) {
  names_.AddGroup(3, {1, 2}, absl::OkStatus());
  names_.SetSlot(Add("grad", 3), 7);
  EXPECT_FALSE(names_.WasRemoved(3));
  names_.RemoveGroup(3);
  EXPECT_TRUE(names_.WasRemoved(3));
  EXPECT_FALSE(names_.WasRemoved(4)) << "it has not been there yet";
  EXPECT_EQ(names_.Find(3, "grad"), nullptr);
  EXPECT_EQ(names_.InSlot(7), nullptr);
}

// As FindOrAdd, it looks first at the name that it has found last, and at the one that came after that.
TEST_F(NameTableTest, RecallFindsNamesInAnyOrderAndNoneThatIsErased) {
  NameTable::Group* const group = names_.FindGroup(0);
  EXPECT_EQ(names_.Recall(group, "a"), nullptr);
  Name* const a = Add("a");
  Name* const b = Add("b");
  Name* const c = Add("c");
  names_.SetSlot(b, 7);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(names_.Recall(group, "a"), a);
    EXPECT_EQ(names_.Recall(group, "b"), b);
    EXPECT_EQ(names_.Recall(group, "b"), b);
    EXPECT_EQ(names_.Recall(group, "c"), c);
  }
  EXPECT_EQ(names_.Recall(group, "a"), a);
  EXPECT_EQ(names_.Retire(7), nullptr) << "b is forgotten";
  EXPECT_EQ(names_.Recall(group, "b"), nullptr);
  EXPECT_EQ(names_.Recall(group, "c"), c);
  Name* const again = Add("b");
  names_.SetSlot(again, 8);
  EXPECT_EQ(names_.Recall(group, "b"), again);
  EXPECT_EQ(names_.Retire(8), nullptr) << "the last one that was found";
  EXPECT_EQ(names_.Recall(group, "b"), nullptr);
  EXPECT_EQ(names_.Recall(group, "a"), a);
}

TEST_F(NameTableTest, ANameKeepsItsPlaceAndASlotLeadsToIt) {
  Name* const name = Add("grad");
  EXPECT_EQ(Add("grad"), name);
  EXPECT_EQ(names_.Find(0, "grad"), name);
  EXPECT_EQ(names_.Find(1, "grad"), nullptr);
  names_.SetSlot(name, 7);
  EXPECT_EQ(names_.InSlot(7), name);
  Submission first, second;
  name->posted = {&first, &second};
  EXPECT_EQ(names_.TakePosted(7), &first);
  EXPECT_EQ(names_.TakePosted(7), &second);
  EXPECT_EQ(names_.TakePosted(7), nullptr);
  EXPECT_EQ(names_.TakePosted(8), nullptr);
  ASSERT_EQ(names_.Slots().size(), 1u);
  EXPECT_EQ(names_.Slots()[0].name, "grad");
}

TEST_F(NameTableTest, ARetiredSlotForgetsANameOnlyIfNothingIsOutstanding) {
  Name* const busy = Add("busy");
  busy->outstanding = 1;
  names_.SetSlot(busy, 7);
  names_.SetSlot(Add("idle"), 8);
  EXPECT_FALSE(names_.IsIdle(0));
  EXPECT_EQ(names_.Retire(7), busy);
  EXPECT_EQ(busy->slot, 0u);
  EXPECT_EQ(busy->retired_slot, 7u);
  EXPECT_EQ(names_.Retire(8), nullptr);
  EXPECT_EQ(names_.Find(0, "idle"), nullptr);
  EXPECT_EQ(names_.Retire(9), nullptr) << "no name has it";
  busy->outstanding = 0;
  EXPECT_TRUE(names_.IsIdle(0));
}

TEST_F(NameTableTest, NoMoreNamesAreAskedForAtATimeThanMayBe) {
  Name* const names[] = {Add("a"), Add("b"), Add("c"), Add("d")};
  EXPECT_TRUE(names_.BeginAsking(names[0]));
  EXPECT_TRUE(names_.BeginAsking(names[1]));
  EXPECT_FALSE(names_.BeginAsking(names[2]));
  EXPECT_FALSE(names_.BeginAsking(names[3]));
  EXPECT_EQ(names_.unasked(), 2u);
  EXPECT_EQ(names_.EndAsking(names[3]), nullptr) << "one that was not asked for frees no turn";
  EXPECT_EQ(names_.EndAsking(names[0]), names[2]);
  EXPECT_EQ(names_.EndAsking(names[0]), nullptr) << "it is over already";
  EXPECT_EQ(names_.unasked(), 0u);
  EXPECT_EQ(names_.EndAsking(names[1]), nullptr);
  EXPECT_EQ(names_.EndAsking(names[2]), nullptr);
  EXPECT_TRUE(names_.BeginAsking(names[3]));
}

TEST_F(NameTableTest, AllPendingSubmissionsOfAGroupAreTakenAtOnce) {
  Submission posted, waiting, other;
  Add("a")->posted.push_back(&posted);
  Name* const asked = Add("b");
  asked->waiting.push_back(&waiting);
  EXPECT_TRUE(names_.BeginAsking(asked));
  EXPECT_TRUE(names_.HasWaiting());
  names_.AddGroup(3, {1, 2}, absl::OkStatus());
  Add("c", 3)->posted.push_back(&other);
  const std::vector<Submission*> taken = names_.TakePending(0);
  EXPECT_EQ(taken.size(), 2u);
  EXPECT_FALSE(names_.HasWaiting());
  EXPECT_EQ(asked->asking, Name::Asking::kNot);
  EXPECT_EQ(names_.TakePending(3), (std::vector<Submission*>{&other}));
}

TEST_F(NameTableTest, ADisagreementIsToldAgainOnlyAsLongAsItHolds) {
  Disagreement of_name;
  of_name.name = "a";
  of_name.next_ordinal = 3;
  of_name.joins = 1;
  Add("a")->told = of_name;
  Disagreement of_slot;
  of_slot.name = "b";
  of_slot.disputed_slot = 7;
  Add("b")->told = of_slot;
  EXPECT_EQ(names_.Told(/*joins=*/1).size(), 2u);
  EXPECT_EQ(names_.Told(/*joins=*/2).size(), 1u) << "a join of all ranks begins the count of a new name again";
  EXPECT_EQ(Add("a")->ordinal(1), 3u);
  EXPECT_EQ(Add("a")->ordinal(2), 0u);
  EXPECT_EQ(Add("b")->ordinal(0), 0u);
  names_.SetSlot(Add("b"), 9);
  EXPECT_EQ(names_.Told(2).size(), 0u) << "a new slot has no disagreement yet";
}

}  // namespace
}  // namespace farandole
