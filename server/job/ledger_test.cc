#include "server/job/ledger.h"

#include <string>
#include <variant>

#include "gtest/gtest.h"

namespace farandole {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

v1::Epoch MakeEpoch(int size) {
  v1::Epoch epoch;
  for (int rank = 0; rank < size; ++rank) epoch.add_members()->set_incarnation(std::string(1, 'a' + rank));
  return epoch;
}

TEST(LedgerTest, TimeDoesNotGoBack) {
  Ledger ledger("t", "j");
  ledger.BeginStep(kStart, absl::Hours(1));
  ledger.BeginStep(kStart - absl::Seconds(1), absl::Hours(2));
  EXPECT_EQ(ledger.now(), kStart);
  EXPECT_EQ(ledger.wall_ahead(), absl::Hours(2));
}

TEST(LedgerTest, AStateIsRecordedAndTold) {
  Ledger ledger("t", "j");
  ledger.BeginStep(kStart, absl::Hours(1));
  EXPECT_FALSE(ledger.IsChanged());
  ledger.Enter(v1::JOB_STATE_RUNNING, "epoch 1 formed", LogLine::Level::kWarn);
  EXPECT_TRUE(ledger.IsChanged());
  EXPECT_EQ(ledger.record().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(ledger.record().reason(), "epoch 1 formed");
  ASSERT_EQ(ledger.history().entries().size(), 1);
  EXPECT_EQ(ledger.history().entries()[0].sentence(), "epoch 1 formed");
  const Actions actions = ledger.TakeActions();
  ASSERT_EQ(actions.outputs.size(), 1u);
  EXPECT_EQ(std::get<LogLine>(actions.outputs[0]).level, LogLine::Level::kWarn);
  EXPECT_EQ(ledger.ended_at(), absl::InfinitePast());
  ledger.BeginStep(kStart + absl::Seconds(1), absl::Hours(1));
  EXPECT_FALSE(ledger.IsChanged());
  ledger.Enter(v1::JOB_STATE_FINISHED, "all left", LogLine::Level::kInform);
  EXPECT_EQ(ledger.ended_at(), kStart + absl::Seconds(1));
}

TEST(LedgerTest, OutputsKeepTheirOrder) {
  Ledger ledger("t", "j");
  ledger.BeginStep(kStart, absl::ZeroDuration());
  ledger.Send(1, Share(v1::CoordinatorMessage()));
  ledger.Close(1, absl::AbortedError("over"));
  ledger.Answer<v1::AbortJobResponse>(5, absl::NotFoundError("none"));
  const Actions actions = ledger.TakeActions();
  ASSERT_EQ(actions.outputs.size(), 3u);
  EXPECT_EQ(std::get<Send>(actions.outputs[0]).stream, 1u);
  EXPECT_EQ(std::get<CloseStream>(actions.outputs[1]).status, absl::AbortedError("over"));
  EXPECT_EQ(std::get<Reply>(actions.outputs[2]).call, 5u);
  EXPECT_EQ(std::get<Reply>(actions.outputs[2]).status, absl::NotFoundError("none"));
  EXPECT_EQ(std::get<Reply>(actions.outputs[2]).message.index(), 0u);
}

TEST(LedgerTest, RecordsWhichMembersAreGone) {
  Ledger ledger("t", "j");
  ledger.BeginStep(kStart, absl::ZeroDuration());
  Roster roster(MakeEpoch(4), absl::Seconds(1));
  roster.Leave(1);
  roster.MarkLost(2, "it was killed");
  roster.Drain(3);
  ledger.RecordStands(roster);
  EXPECT_EQ(ledger.record().left_size(), 1);
  EXPECT_EQ(ledger.record().left(0), 1u);
  // A loss is the end of a job that is not elastic.
  EXPECT_EQ(ledger.record().lost_size(), 0);
  EXPECT_EQ(ledger.record().drained(0), 3u);
  ledger.Change()->mutable_elastic();
  ledger.RecordStands(roster);
  ASSERT_EQ(ledger.record().lost_size(), 1);
  EXPECT_EQ(ledger.record().lost(0), 2u);
  EXPECT_EQ(ledger.record().left_size(), 1);
}

}  // namespace
}  // namespace farandole
