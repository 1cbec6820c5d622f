#include "worker/device/nccl/nccl_invitation.h"

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(NcclInvitationTest, ComesAsItWasSent) {
  NcclInvitation sent;
  std::memset(sent.id.internal, '\x80', sizeof(sent.id.internal));
  sent.sets = {{1, {0, 1}}, {7, {3}}, {0xFFFFFFFF, {0, 1, 2, 3}}};
  const std::string bytes = sent.Pack(4);
  EXPECT_EQ(bytes.size(), NcclInvitation::BytesFor(4));
  const NcclInvitation received = NcclInvitation::Unpack(bytes);
  EXPECT_EQ(std::memcmp(&received.id, &sent.id, sizeof(sent.id)), 0);
  EXPECT_EQ(received.sets, sent.sets);
}

TEST(NcclInvitationTest, HasNoSetsForMost) {
  for (const size_t ranks : {1, 2, 1000}) {
    const std::string bytes = NcclInvitation().Pack(ranks);
    EXPECT_EQ(bytes.size(), NcclInvitation::BytesFor(ranks));
    EXPECT_THAT(NcclInvitation::Unpack(bytes).sets, testing::IsEmpty());
  }
}

TEST(NcclInvitationTest, OfVeryManySetsTheLastAreLeftOut) {
  NcclInvitation sent;
  std::vector<int> all(32);
  std::iota(all.begin(), all.end(), 0);
  for (uint32_t number = 1; number <= 100; ++number) sent.sets[number] = all;
  const std::string bytes = sent.Pack(all.size());
  EXPECT_EQ(bytes.size(), NcclInvitation::BytesFor(all.size()));
  const ProcessSets received = NcclInvitation::Unpack(bytes).sets;
  EXPECT_GE(received.size(), 16u);
  EXPECT_LT(received.size(), 100u);
  EXPECT_EQ(received.rbegin()->first, received.size());
  for (const auto& [number, ranks] : received) EXPECT_EQ(ranks, all);
}

}  // namespace
}  // namespace farandole
