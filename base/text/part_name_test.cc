#include "base/text/part_name.h"

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

using Members = std::vector<int>;

Members Spaced(int count, int first, int step) {
  Members members;
  for (int i = 0; i < count; ++i) members.push_back(first + i * step);
  return members;
}

TEST(PartNameTest, TheNameTellsItsMembersInTheirOrder) {
  for (const Members& members :
       {Members{0}, Members{0, 3, 2}, Spaced(100, 0, 1), Spaced(40, 1, 2), Spaced(32768, 0, 2)}) {
    EXPECT_EQ(ReadPart("train", NamePart("train", members)), std::optional<Members>(members)) << NameMembers(members);
  }
  EXPECT_EQ(NameMembers({0, 3, 2}), "0-3-2");
  EXPECT_EQ(NameMembers(Spaced(100, 0, 1)), "0to99");
  EXPECT_EQ(NameMembers(Spaced(40, 1, 2)), "1to79by2");
}

TEST(PartNameTest, ManyMembersWithoutAnOrderAreToldApartByAHash) {
  Members some = Spaced(40, 0, 1);
  std::swap(some[0], some[1]);
  Members others = Spaced(40, 0, 1);
  std::swap(others[1], others[2]);
  EXPECT_NE(NameMembers(some), NameMembers(others));
  EXPECT_EQ(NameMembers(some).substr(0, 4), "40of");
  EXPECT_EQ(ReadPart("train", NamePart("train", some)), std::optional<Members>(Members()));
}

TEST(PartNameTest, ALongNameIsCutAndFitsIntoAJobsName) {
  const std::string job(128, 'j');
  Members members = Spaced(40000, 0, 1);
  std::swap(members[0], members[1]);
  for (const Members& part : {members, Spaced(12, 100, 7), Spaced(65536, 0, 1)}) {
    EXPECT_LE(NamePart(job, part).size(), 128u);
    EXPECT_TRUE(ReadPart(job, NamePart(job, part)).has_value());
  }
}

TEST(PartNameTest, OtherJobsAreNoParts) {
  for (const char* name :
       {"train", "train.", "train.a", "train.0-", "train.-1", "train.0-+1", "train.1to0", "train.0to", "train.0to9by",
        "train.0to9by0", "train.0to99999", "train.40of12", "training.0-1", "other.0-1"}) {
    EXPECT_FALSE(ReadPart("train", name).has_value()) << name;
  }
}

TEST(PartNameTest, ALongerNameThanAJobMayHaveIsNoPart) {
  std::string name = "train.0";
  while (name.size() < 128) name += "-0";
  EXPECT_EQ(name.size(), 129u);
  EXPECT_FALSE(ReadPart("train", name).has_value());
  name.resize(127);
  EXPECT_TRUE(ReadPart("train", name).has_value());
}

}  // namespace
}  // namespace farandole
