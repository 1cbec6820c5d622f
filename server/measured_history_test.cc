// Measurements of a job's ranks over epochs, the job's end and restarts of the coordinator.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/diagnosis/measured_rows.h"
#include "server/diagnosis/roll_up_history.h"
#include "server/job/job.h"
#include "server/job/rules/bounds.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

// An elastic job of three ranks, which is measured.
class MeasuredTest : public testing::Test {
 protected:
  // The last one is on this host, and the others on "a".
  explicit MeasuredTest(std::string last_host = "a") : last_host_(std::move(last_host)) {
    for (int index = 0; index < 3; ++index) Join(index);
  }

  // Worker `index` joins, in the place of `before` if that is not negative.
  void Join(int index, int before = -1) {
    JoinRequested join{shell_.NewCall(), {}};
    v1::JoinRequest& request = join.request;
    request.set_job("mnist");
    request.mutable_member()->set_incarnation(IncarnationOf(absl::StrCat("w", index)));
    const std::string host = index == 2 ? last_host_ : "a";
    request.mutable_member()->set_host_id(host);
    request.mutable_member()->set_hostname("node-" + host);
    request.mutable_member()->set_pid(static_cast<uint32_t>(1 + index));
    request.set_launch_index(static_cast<uint32_t>(index % 10));
    request.set_wanted_size(3);
    request.set_protocol_version(kProtocolVersion);
    request.set_join_timeout_ms(5000);
    request.set_stall_warning_ms(60000);
    request.mutable_elastic()->set_min_size(1);
    request.mutable_elastic()->set_max_size(4);
    request.mutable_elastic()->set_shortage_limit_ms(60'000);
    if (before >= 0) request.set_predecessor(IncarnationOf(absl::StrCat("w", before)));
    shell_.Step(join);
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(request.member().incarnation());
    streams_[index] = shell_.NewStream();
    shell_.Step(StreamOpened{streams_[index], hello});
  }
  void Return(int index, uint64_t epoch) {
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(IncarnationOf(absl::StrCat("w", index)));
    hello.set_epoch(epoch);
    streams_[index] = shell_.NewStream();
    shell_.Step(StreamOpened{streams_[index], hello});
  }
  // A worker tells of these ranks for half a second; rank r has waited for a tenth of r of the time.
  void Beat(int worker, uint64_t epoch, const std::vector<uint32_t>& ranks) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_epoch(epoch);
    if (!ranks.empty()) {
      v1::Measures* measures = beat.mutable_heartbeat()->mutable_measures();
      measures->set_interval_us(500'000);
      measures->set_sent_bytes(500'000);
      for (const uint32_t rank : ranks) {
        v1::Pulse* pulse = beat.mutable_heartbeat()->add_pulses();
        pulse->set_rank(rank);
        pulse->set_beat(++beat_);
        measures->add_steps(5);
        measures->add_waited_us(50'000 * rank);
        measures->add_waited_in_batch_us(0);
      }
    }
    shell_.Step(MessageReceived{streams_[worker], beat});
  }
  // The one host tells of its ranks for so long.
  void Live(int seconds, uint64_t epoch, const std::vector<int>& workers) {
    std::vector<uint32_t> ranks(workers.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int half = 0; half < 2 * seconds; ++half) {
      shell_.Advance(absl::Milliseconds(500), [](const Actions&) {});
      for (const int worker : workers) Beat(worker, epoch, worker == workers.front() ? ranks : std::vector<uint32_t>());
    }
  }
  v1::GetJobResponse Show(uint32_t rank, uint64_t epoch = 0) { return Show(HistoryAsked{rank, epoch}); }
  v1::GetJobResponse Show(const HistoryAsked& asked) {
    for (const Output& output : shell_.Step(JobInspected{shell_.NewCall(), asked}).outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply != nullptr) return std::get<v1::GetJobResponse>(reply->message);
    }
    return {};
  }
  v1::RankHistory History(uint32_t rank, uint64_t epoch = 0) { return Show(rank, epoch).rank_history(); }
  int MeasuredRowCount() const {
    int rows = 0;
    for (const auto& [key, value] : shell_.rows()) rows += key.rfind("measured/", 0) == 0 ? 1 : 0;
    return rows;
  }
  // Worker 1, which is rank 1, dies, and the others form the next epoch.
  void LoseOne() {
    shell_.Close(streams_[1], "connection reset");
    ExitReported exit{shell_.NewCall(), {}};
    exit.request.set_job("mnist");
    exit.request.set_launch_index(1);
    exit.request.set_failed(true);
    exit.request.set_end("SIGKILL");
    exit.request.set_host("node-a");
    shell_.Step(exit);
    Join(10, 0);
    Join(12, 2);
  }

  const std::string last_host_;
  TestShell shell_{JobOptions()};
  std::map<int, StreamId> streams_;
  uint64_t beat_ = 0;
};

TEST_F(MeasuredTest, TheSummaryHasTheStepsASecondOfTheEpochThatRuns) {
  EXPECT_FALSE(Show(0).summary().has_steps_per_second());
  Live(2, 1, {0, 1, 2});
  EXPECT_NEAR(Show(0).summary().steps_per_second(), 10, 0.01);
  LoseOne();
  EXPECT_FALSE(Show(0).summary().has_steps_per_second()) << "of the next epoch there is none yet";
}

TEST_F(MeasuredTest, ALossLeavesTheHistoryOfThoseThatGoOnAndOfTheLostOne) {
  Live(65, 1, {0, 1, 2});
  LoseOne();
  Live(35, 2, {10, 12});
  const v1::RankHistory survivor = History(1);
  ASSERT_GE(survivor.waited_size(), 9) << "of both epochs";
  EXPECT_EQ(survivor.waited(0), 200u) << "rank 2 of epoch 1";
  EXPECT_EQ(survivor.waited(survivor.waited_size() - 1), 100u) << "rank 1 of epoch 2";
  for (int i = 1; i < survivor.at_unix_ms_size(); ++i)
    EXPECT_EQ(survivor.at_unix_ms(i) - survivor.at_unix_ms(i - 1), 10'000);
  const v1::RankHistory lost = History(1, 1);
  ASSERT_GE(lost.waited_size(), 6);
  EXPECT_EQ(lost.waited(lost.waited_size() - 1), 100u);
  EXPECT_GT(absl::FromUnixMillis(lost.at_unix_ms(lost.at_unix_ms_size() - 1)), shell_.now() - absl::Seconds(50))
      << "the last seconds before the loss";
  EXPECT_GE(History(RollUpHistory::kWholeJob).steps_size(), 9);
  EXPECT_EQ(History(RollUpHistory::kWholeJob).steps(1), 100u);
  EXPECT_THAT(shell_.broken(), testing::IsEmpty());
}

TEST_F(MeasuredTest, AJobThatHasEndedStillShowsAllOfIt) {
  Live(33, 1, {0, 1, 2});
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  for (const char* life : {"this", "the next"}) {
    const v1::GetJobResponse job = Show(2);
    EXPECT_GE(job.rank_history().waited_size(), 4) << life;
    EXPECT_EQ(job.rank_history().waited(0), 200u) << life;
    ASSERT_EQ(job.hosts_size(), 1) << life;
    EXPECT_EQ(job.hosts(0).hostname(), "node-a") << life;
    EXPECT_NEAR(job.hosts(0).sent_bytes_per_second(), 1e6, 1e5) << life;
    EXPECT_GT(job.diagnosis().total().steps(), 300u) << life;
    EXPECT_TRUE(shell_.job().IsIdle());
    shell_.Restart([](const Actions&) {});
  }
}

TEST_F(MeasuredTest, AGpuIsShownOverTimeAlsoAfterTheEnd) {
  const auto tell = [this](int worker, std::optional<uint32_t> busy, uint64_t used) {
    v1::WorkerMessage message;
    message.mutable_gpu_status()->set_epoch(1);
    v1::Gpu* const gpu = message.mutable_gpu_status()->mutable_gpu();
    gpu->set_name("H100");
    if (busy.has_value()) gpu->set_busy_percent(*busy);
    gpu->set_memory_used_bytes(used);
    gpu->set_memory_total_bytes(1000);
    shell_.Step(MessageReceived{streams_[worker], message});
  };
  Live(20, 1, {0, 1, 2});
  EXPECT_EQ(History(0).gpu_size(), 0) << "nothing is known of any GPU";
  tell(0, 90, 250);
  // A part of a GPU does not tell how busy it is.
  tell(1, std::nullopt, 500);
  Live(30, 1, {0, 1, 2});
  tell(0, 30, 250);
  Live(30, 1, {0, 1, 2});
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  for (const char* life : {"this", "the next"}) {
    const v1::RankHistory first = History(0);
    ASSERT_EQ(first.gpu_size(), first.waited_size()) << life;
    ASSERT_GE(first.gpu_size(), 7) << life;
    EXPECT_EQ(first.gpu(0), -1) << life;
    EXPECT_EQ(first.gpu(3), 900) << life;
    EXPECT_EQ(first.gpu_memory(3), 250) << life;
    EXPECT_EQ(first.gpu(first.gpu_size() - 1), 300) << life;
    const v1::RankHistory second = History(1);
    EXPECT_EQ(second.gpu(3), -1) << life;
    EXPECT_EQ(second.gpu_memory(3), 500) << life;
    EXPECT_EQ(History(2).gpu_size(), 0) << life;
    EXPECT_EQ(History(RollUpHistory::kWholeJob).gpu_memory(3), 375) << life << ", the mean of two";
    shell_.Restart([](const Actions&) {});
  }
}

TEST_F(MeasuredTest, ScoresCompareARankWithTheBestOneAndWithItself) {
  // Rank r waits for a tenth of r of the time: the own times of a step are 100, 90 and 80 ms.
  Live(40, 1, {0, 1, 2});
  const v1::GetJobResponse job = Show(0);
  ASSERT_EQ(job.workers_size(), 3);
  EXPECT_NEAR(job.workers(0).measured().score(), 0.8, 1e-3);
  EXPECT_NEAR(job.workers(1).measured().score(), 8.0 / 9, 1e-3);
  EXPECT_NEAR(job.workers(2).measured().score(), 1, 1e-3);
  EXPECT_NEAR(job.workers(0).measured().own_score(), 1, 1e-3);
  // A tenth of the time is lost by waits on average.
  EXPECT_NEAR(job.diagnosis().now().slowdown(), 1 / 0.9, 1e-3);
}

TEST_F(MeasuredTest, ChartsHaveTheAskedRangeAndNothingElseOfTheJob) {
  Live(125, 1, {0, 1, 2});
  HistoryAsked asked{RollUpHistory::kWholeJob};
  asked.latest = absl::Minutes(1);
  asked.is_alone = true;
  for (const char* state : {"running", "ended"}) {
    const v1::GetJobResponse job = Show(asked);
    EXPECT_EQ(job.workers_size() + job.hosts_size() + job.history_size(), 0) << state;
    EXPECT_EQ(job.summary().size(), 3u) << state;
    EXPECT_EQ(job.rank_history().at_unix_ms_size(), 6) << state;
    EXPECT_EQ(job.rank_history().waited(1), 100u) << state << ", the mean of 0, 100 and 200";
    EXPECT_EQ(job.rank_history().most_waited(1), 200u) << state;
    EXPECT_EQ(job.rank_history().steps(5), 100u) << state << ": of ten seconds, though the last ones were not over";
    shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  }
  HistoryAsked host;
  host.host_id = "a";
  EXPECT_EQ(Show(host).rank_history().waited(1), 100u);
  host.host_id = "b";
  EXPECT_FALSE(Show(host).has_rank_history());
}

class MeasuredOnTwoHostsTest : public MeasuredTest {
 protected:
  MeasuredOnTwoHostsTest() : MeasuredTest("b") {}
};

TEST_F(MeasuredOnTwoHostsTest, AHostIsTheMeanOfItsRanks) {
  for (int half = 0; half < 2 * 45; ++half) {
    shell_.Advance(absl::Milliseconds(500), [](const Actions&) {});
    Beat(0, 1, {0, 1});
    Beat(1, 1, {});
    Beat(2, 1, {2});
  }
  const std::pair<const char*, uint32_t> waited[] = {{"a", 50}, {"b", 200}};
  for (const auto& [host, mean] : waited) {
    HistoryAsked asked;
    asked.host_id = host;
    const v1::RankHistory history = Show(asked).rank_history();
    ASSERT_GE(history.waited_size(), 3) << host;
    EXPECT_EQ(history.waited(1), mean) << host;
    EXPECT_EQ(history.most_waited(1), host == std::string("a") ? 100u : 200u) << host;
    EXPECT_EQ(history.steps(1), 100u) << host;
    const v1::NetworkHistory traffic = Show(asked).network_history();
    ASSERT_EQ(traffic.at_unix_ms_size(), history.at_unix_ms_size()) << host;
    EXPECT_NEAR(static_cast<double>(traffic.sent_bytes(1)), 1e6, 1e4) << host;
  }
  EXPECT_EQ(History(RollUpHistory::kWholeJob).waited(1), 100u);
  EXPECT_NEAR(static_cast<double>(Show(RollUpHistory::kWholeJob).network_history().sent_bytes(1)), 2e6, 2e4)
      << "the sum of both hosts";
}

TEST_F(MeasuredTest, AHostsNetworkOutlivesEpochsAndTheCoordinator) {
  Live(35, 1, {0, 1, 2});
  LoseOne();
  Live(35, 2, {10, 12});
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  HistoryAsked asked;
  asked.host_id = "a";
  const int points = Show(asked).network_history().at_unix_ms_size();
  EXPECT_GE(points, 7);
  shell_.Restart([](const Actions&) {});
  const v1::NetworkHistory traffic = Show(asked).network_history();
  EXPECT_EQ(traffic.at_unix_ms_size(), points);
  EXPECT_NEAR(static_cast<double>(traffic.sent_bytes(0)), 1e6, 1e5);
  EXPECT_FALSE(Show(0).has_network_history()) << "a rank has none";
}

TEST_F(MeasuredTest, ACoordinatorThatDiesLosesTheLastMinuteAtMost) {
  Live(150, 1, {0, 1, 2});
  const int before = History(2).waited_size();
  shell_.Restart([](const Actions&) {});
  EXPECT_GE(History(2).waited_size(), before - 6);
  EXPECT_GT(Show(2).diagnosis().total().steps(), 0u) << "the report of the earlier life";
  shell_.Oversleep(absl::Seconds(1));
  for (int index = 0; index < 3; ++index) Return(index, 1);
  const int kept = History(2).waited_size();
  Live(65, 1, {0, 1, 2});
  const v1::RankHistory history = History(2);
  EXPECT_GE(history.waited_size(), kept + 5);
  for (int i = 1; i < history.at_unix_ms_size(); ++i) EXPECT_GT(history.at_unix_ms(i), history.at_unix_ms(i - 1));
  // One that dies while its members do not come back.
  shell_.Restart([](const Actions&) {});
  shell_.Advance(absl::Minutes(2), [](const Actions&) {});
  EXPECT_GE(History(2).waited_size(), kept);
  EXPECT_GT(Show(2).diagnosis().total().steps(), 0u);
  EXPECT_THAT(shell_.broken(), testing::IsEmpty());
}

TEST_F(MeasuredTest, RowsAreWrittenOnceAMinuteAndInNoStepOfTheJob) {
  Live(5, 1, {0, 1, 2});
  EXPECT_EQ(MeasuredRowCount(), 0);
  Live(60, 1, {0, 1, 2});
  EXPECT_EQ(MeasuredRowCount(), 3) << "six points of the ranks, six of the host, and the report";
  Live(600, 1, {0, 1, 2});
  EXPECT_LE(MeasuredRowCount(), 2 * (1 + 10 + 1) + 1);
}

TEST_F(MeasuredTest, ACheckOfTheStoreReadsEachRow) {
  Live(150, 1, {0, 1, 2});
  LoseOne();
  Live(65, 2, {10, 12});
  int rows = 0;
  for (const auto& [key, value] : shell_.rows()) {
    if (key.rfind("measured/", 0) != 0) continue;
    ++rows;
    EXPECT_TRUE(MeasuredRows::IsWhole({key, value})) << key;
    EXPECT_FALSE(MeasuredRows::IsWhole({key, value.substr(0, value.size() - 1)})) << key;
  }
  EXPECT_GE(rows, 6) << "points, links and the report";
  EXPECT_FALSE(MeasuredRows::IsWhole({"measured/acme", "x"}));
}

TEST_F(MeasuredTest, TheyGoAloneOrWithTheJob) {
  Live(150, 1, {0, 1, 2});
  LoseOne();
  Live(65, 2, {10, 12});
  shell_.Step(DeleteRequested{shell_.NewCall(), 0, true});
  EXPECT_GT(MeasuredRowCount(), 3) << "the job runs";
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_GT(MeasuredRowCount(), 3);
  shell_.Step(DeleteRequested{shell_.NewCall(), 0, true});
  EXPECT_EQ(MeasuredRowCount(), 0);
  EXPECT_EQ(History(0).waited_size(), 0);
  EXPECT_EQ(Show(0).hosts_size(), 0);
  shell_.Restart([](const Actions&) {});
  EXPECT_EQ(History(0).waited_size(), 0);
  EXPECT_THAT(shell_.broken(), testing::IsEmpty());
}

TEST_F(MeasuredTest, ARowThatCannotBeReadIsLeftOutAndTheJobGoesOn) {
  Live(130, 1, {0, 1, 2});
  std::vector<StoreRow> rows;
  for (const auto& [key, value] : shell_.rows()) rows.push_back({key, value});
  const auto first =
      std::find_if(rows.begin(), rows.end(), [](const StoreRow& row) { return row.key.rfind("measured/", 0) == 0; });
  ASSERT_NE(first, rows.end());
  first->value.resize(20);
  const auto random = [](size_t count) { return std::string(count, 'x'); };
  const auto job = Job::Restore("acme", "mnist", JobOptions(), random, rows, shell_.now());
  ASSERT_TRUE(job.ok()) << job.status();
  const Actions actions = (*job)->Step(JobInspected{1, HistoryAsked{2}}, shell_.now());
  bool is_told = false;
  for (const Output& output : actions.outputs) {
    const auto* reply = std::get_if<Reply>(&output);
    if (reply == nullptr) continue;
    const auto& shown = std::get<v1::GetJobResponse>(reply->message);
    EXPECT_GE(shown.rank_history().waited_size(), 6);
    for (const v1::HistoryEntry& entry : shown.history())
      is_told = is_told || entry.sentence() == absl::StrCat("row ", first->key, " is not of what ranks have done");
  }
  EXPECT_TRUE(is_told);
}

}  // namespace
}  // namespace farandole
