#include "worker/device/nccl/nccl_invitation.h"

#include <cstring>
#include <limits>
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
  const NcclInvitation received = *NcclInvitation::Unpack(bytes, 4);
  EXPECT_EQ(std::memcmp(&received.id, &sent.id, sizeof(sent.id)), 0);
  EXPECT_EQ(received.sets, sent.sets);
}

TEST(NcclInvitationTest, HasNoSetsForMost) {
  for (const size_t ranks : {1, 2, 1000}) {
    const std::string bytes = NcclInvitation().Pack(ranks);
    EXPECT_EQ(bytes.size(), NcclInvitation::BytesFor(ranks));
    EXPECT_THAT(NcclInvitation::Unpack(bytes, ranks)->sets, testing::IsEmpty());
  }
}

TEST(NcclInvitationTest, OfVeryManySetsTheLastAreLeftOut) {
  NcclInvitation sent;
  std::vector<int> all(32);
  std::iota(all.begin(), all.end(), 0);
  for (uint32_t number = 1; number <= 100; ++number) sent.sets[number] = all;
  const std::string bytes = sent.Pack(all.size());
  EXPECT_EQ(bytes.size(), NcclInvitation::BytesFor(all.size()));
  const ProcessSets received = NcclInvitation::Unpack(bytes, all.size())->sets;
  EXPECT_GE(received.size(), 16u);
  EXPECT_LT(received.size(), 100u);
  EXPECT_EQ(received.rbegin()->first, received.size());
  for (const auto& [number, ranks] : received) EXPECT_EQ(ranks, all);
}

// A message for four ranks with these numbers in the place of the sets.
std::string WithNumbers(const std::vector<int32_t>& numbers) {
  std::string bytes = NcclInvitation().Pack(4);
  std::memcpy(&bytes[sizeof(NcclUniqueId)], numbers.data(), numbers.size() * sizeof(int32_t));
  return bytes;
}

TEST(NcclInvitationTest, ThatWasChangedOnItsWayIsRefused) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(NcclInvitation::Unpack(WithNumbers({1, 7, 2, 0, 3}), 4)->sets, (ProcessSets{{7, {0, 3}}}));
  for (const std::vector<int32_t>& numbers :
       std::vector<std::vector<int32_t>>{{most},                    // sets
                                         {-1},                      //
                                         {1, 7, most},              // ranks of a set
                                         {1, 7, -1},                //
                                         {1, 7, 2, 3, 0},           // not ascending
                                         {1, 7, 2, 1, 1},           //
                                         {1, 7, 1, 4},              // no rank
                                         {1, 7, 1, -1},             //
                                         {2, 7, 1, 0, 7, 1, 1}}) {  // one set twice
    const absl::Status status = NcclInvitation::Unpack(WithNumbers(numbers), 4).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status << " for " << testing::PrintToString(numbers);
  }
  const std::string bytes = NcclInvitation().Pack(4);
  for (const size_t size : {size_t{0}, sizeof(NcclUniqueId), bytes.size() - 1})
    EXPECT_TRUE(absl::IsDataLoss(NcclInvitation::Unpack(bytes.substr(0, size), 4).status())) << size;
}

}  // namespace
}  // namespace farandole
