// The parts that an elastic job's policy is made of: which workers the next epoch takes, whom it waits for, and when
// its members learn that the number should change. The scripts of server/job/testdata/elastic* show them together.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/members/lobby.h"
#include "server/job/members/survivors.h"
#include "server/job/members/wanted_change.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

constexpr absl::Time kNow = absl::UnixEpoch();
constexpr absl::Duration kSilenceLimit = absl::Seconds(3);
constexpr absl::Duration kReturnLimit = absl::Seconds(60);

v1::JoinRequest JoinOf(const std::string& incarnation, uint32_t launch_index) {
  v1::JoinRequest request;
  request.mutable_member()->set_incarnation(incarnation);
  request.set_launch_index(launch_index);
  request.set_wanted_size(3);
  request.mutable_elastic()->set_min_size(2);
  request.mutable_elastic()->set_max_size(4);
  request.set_join_timeout_ms(60'000);
  return request;
}

std::vector<std::string> IncarnationsOf(const std::vector<Lobby::Worker>& workers) {
  std::vector<std::string> incarnations;
  for (const Lobby::Worker& worker : workers) incarnations.push_back(worker.member.incarnation());
  return incarnations;
}

class ElasticLobbyTest : public ::testing::Test {
 protected:
  // It joins and opens its stream.
  void Enter(const std::string& incarnation, uint32_t launch_index, std::optional<uint32_t> old_rank = std::nullopt) {
    ASSERT_TRUE(lobby_.Join(JoinOf(incarnation, launch_index), old_rank, kNow).ok());
    lobby_.Open(incarnation, ++streams_);
  }

  Lobby lobby_{8, absl::Seconds(10), absl::Seconds(2)};
  StreamId streams_ = 0;
};

TEST_F(ElasticLobbyTest, AnEpochTakesSurvivorsFirstAndThenTheFirstLaunched) {
  Enter("late", 9);
  Enter("early", 4);
  Enter("survivor", 20, 1);
  Enter("between", 5);
  EXPECT_EQ(lobby_.newcomers(), 3);
  EXPECT_THAT(IncarnationsOf(lobby_.TakeOpened(3)), ElementsAre("early", "survivor", "between"));
  EXPECT_THAT(IncarnationsOf(lobby_.Take()), ElementsAre("late"));
}

TEST_F(ElasticLobbyTest, AWorkerWithoutAStreamIsNotTakenAndLosesItsPlaceSoon) {
  Enter("open", 0);
  ASSERT_TRUE(lobby_.Join(JoinOf("silent", 1), std::nullopt, kNow).ok());
  EXPECT_EQ(lobby_.opened(), 1);
  EXPECT_EQ(lobby_.Deadline(), kNow + absl::Seconds(2));
  EXPECT_THAT(lobby_.RemoveUnopened(kNow + absl::Seconds(1)), ::testing::IsEmpty());
  EXPECT_THAT(IncarnationsOf(lobby_.RemoveUnopened(kNow + absl::Seconds(2))), ElementsAre("silent"));
}

TEST_F(ElasticLobbyTest, AWorkerOfAnotherSizeIsRefusedAndBothSizesAreNamed) {
  Enter("first", 0);
  v1::JoinRequest other = JoinOf("other", 1);
  other.mutable_elastic()->set_max_size(8);
  const absl::Status refused = lobby_.Join(other, std::nullopt, kNow);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::AllOf(::testing::HasSubstr("min_size 2 and max_size 8"),
                                                               ::testing::HasSubstr("min_size 2 and max_size 4")));
}

class SurvivorsTest : public ::testing::Test {
 protected:
  // Rank 1 of three is lost when the epoch ends.
  SurvivorsTest() {
    v1::Epoch epoch;
    for (int rank = 0; rank < 3; ++rank) epoch.add_members()->set_incarnation(absl::StrCat("w", rank));
    auto roster = std::make_unique<Roster>(epoch, kSilenceLimit);
    for (uint32_t rank = 0; rank < 3; ++rank) roster->Attach(rank, rank + 1, kNow);
    roster->MarkLost(1, "it died");
    survivors_ = std::make_unique<Survivors>(std::move(epoch), std::move(roster), kReturnLimit, kNow);
  }

  std::unique_ptr<Survivors> survivors_;
};

TEST_F(SurvivorsTest, ALostMemberIsNotAwaited) {
  EXPECT_EQ(survivors_->awaited(), 2);
  EXPECT_FALSE(survivors_->IsAwaited(1));
  EXPECT_EQ(survivors_->Return(2), 3);
  EXPECT_TRUE(survivors_->IsBack(2));
  EXPECT_EQ(survivors_->awaited(), 1);
}

TEST_F(SurvivorsTest, TheReturnLimitRunsWhileOthersWait) {
  survivors_->Return(0);
  // Rank 2 says that it is alive: only others that wait for it bound its time.
  const absl::Time later = kNow + kReturnLimit;
  survivors_->Hear(2, later);
  EXPECT_THAT(survivors_->FindLosses(later), ::testing::IsEmpty());
  survivors_->SetMissed(true, later);
  survivors_->Hear(2, later + kReturnLimit);
  EXPECT_THAT(survivors_->FindLosses(later + kReturnLimit - absl::Seconds(1)), ::testing::IsEmpty());
  const std::vector<Roster::Loss> losses = survivors_->FindLosses(later + kReturnLimit);
  ASSERT_THAT(losses, ::testing::SizeIs(1));
  EXPECT_EQ(losses[0].rank, 2);
  EXPECT_THAT(losses[0].claim, ::testing::HasSubstr("it did not join again within 60 s"));
}

TEST_F(SurvivorsTest, AMemberThatWasDrainedIsNotAwaitedEither) {
  survivors_->Drain(0);
  EXPECT_EQ(survivors_->awaited(), 1);
  EXPECT_FALSE(survivors_->IsFinishing());
  survivors_->Leave(2, /*returns=*/false, kNow);
  EXPECT_TRUE(survivors_->IsFinishing());
}

TEST(WantedChangeTest, NewcomersAreToldOfTogetherAtTheEndOfTheWindow) {
  WantedChange change(7, absl::Seconds(5), 0);
  EXPECT_FALSE(change.IsDue(1, 0, kNow));
  EXPECT_FALSE(change.IsDue(2, 0, kNow + absl::Seconds(3)));
  EXPECT_EQ(change.Deadline(), kNow + absl::Seconds(5));
  ASSERT_TRUE(change.IsDue(2, 0, kNow + absl::Seconds(5)));
  const v1::ChangeWanted& wanted = change.Tell(2, {}, "two workers wait").change_wanted();
  EXPECT_EQ(wanted.joining(), 2);
  EXPECT_EQ(wanted.serial(), 1);
  EXPECT_FALSE(change.IsDue(2, 0, kNow + absl::Seconds(60)));
}

TEST(WantedChangeTest, RanksThatAreToLeaveAreToldOfAtOnce) {
  WantedChange change(7, absl::Seconds(5), 0);
  ASSERT_TRUE(change.IsDue(0, 1, kNow));
  EXPECT_THAT(change.Tell(0, {2}, "host b is drained").change_wanted().leaving(), ElementsAre(2));
  EXPECT_FALSE(change.IsDue(0, 1, kNow));
}

TEST(WantedChangeTest, ANewcomerThatGoesAgainIsNotToldOf) {
  WantedChange change(7, absl::Seconds(5), 0);
  EXPECT_FALSE(change.IsDue(1, 0, kNow));
  EXPECT_FALSE(change.IsDue(0, 0, kNow + absl::Seconds(4)));
  EXPECT_FALSE(change.IsDue(1, 0, kNow + absl::Seconds(6)));
  EXPECT_EQ(change.Deadline(), kNow + absl::Seconds(11));
}

}  // namespace
}  // namespace farandole
