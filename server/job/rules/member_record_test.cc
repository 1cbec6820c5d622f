#include "server/job/rules/member_record.h"

#include <random>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

v1::Epoch EpochOf(int size) {
  std::mt19937_64 random(1);
  v1::Epoch epoch;
  epoch.set_number(7);
  for (int rank = 0; rank < size; ++rank) {
    v1::Member* member = epoch.add_members();
    member->set_incarnation(absl::StrFormat("%016x%016x", random(), random()));
    member->set_host_id(absl::StrFormat("0b1f8a62-5f0c-4b5e-9d3a-%012x:4026531840:4026531836:1000", rank / 8));
    member->set_hostname(absl::StrFormat("node-%04d", rank / 8));
    member->set_pid(static_cast<int64_t>(random() % 4'000'000) + 1);
    member->add_endpoints(absl::StrFormat("unix-abstract:farandole-%016x%016x", random(), random()));
  }
  return epoch;
}

TEST(MemberRecordTest, MembersAreReadAsTheyWereWritten) {
  for (const int size : {0, 1, 100}) {
    const v1::Epoch epoch = EpochOf(size);
    const absl::StatusOr<v1::Epoch> read = UnpackMembers(PackMembers(epoch));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), epoch.SerializeAsString());
  }
}

TEST(MemberRecordTest, TenThousandMembersFit) {
  EXPECT_LT(PackMembers(EpochOf(10'240)).size(), kMostMembersRecordBytes);
}

TEST(MemberRecordTest, OtherBytesAreNoMembers) {
  const std::string good = PackMembers(EpochOf(10));
  EXPECT_TRUE(absl::IsDataLoss(UnpackMembers("\xff").status()));
  EXPECT_TRUE(absl::IsDataLoss(UnpackMembers("").status()));
  EXPECT_TRUE(absl::IsDataLoss(UnpackMembers(good.substr(0, good.size() / 2)).status()));
}

}  // namespace
}  // namespace farandole
