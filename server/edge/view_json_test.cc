#include "server/edge/view_json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/edge/job_views.h"

namespace farandole {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// Rank 3 of 8, on two hosts, is slow, and rank 5 is lost.
v1::GetJobResponse SomeJob(int ranks = 8) {
  v1::GetJobResponse job;
  job.mutable_summary()->set_job("mnist");
  for (int rank = 0; rank < ranks; ++rank) {
    v1::WorkerStatus* worker = job.add_workers();
    worker->set_rank(rank);
    worker->mutable_member()->set_host_id(absl::StrCat("id-", rank / 4));
    worker->mutable_member()->set_hostname(absl::StrCat("node-", rank / 4));
    worker->set_state(rank == 5 ? "lost: it died" : "live");
    if (rank == 5) continue;
    worker->mutable_measured()->set_own_percent(rank == 3 ? 90 : 50);
    worker->mutable_measured()->set_alone_seconds(rank == 3 ? 7 : 0);
    worker->set_last_submitted(rank == 3 ? "loss" : "gradient");
    worker->set_waiting_ms(rank == 3 ? 0 : 100 + rank);
  }
  v1::HostStatus* host = job.add_hosts();
  host->set_host_id("id-1");
  host->set_sent_bytes_per_second(1000.4);
  return job;
}

Json View(const std::string& view, const std::string& query, const v1::GetJobResponse& job) {
  const absl::StatusOr<std::string> text = ViewJson(view, query, job, 5);
  EXPECT_TRUE(text.ok()) << text.status();
  return Json::parse(text.value_or("{}"));
}

TEST(ViewJsonTest, APageHasTheJobWithoutItsWorkers) {
  const Json page = View("page", "", SomeJob());
  EXPECT_EQ(page["workers"], 8);
  EXPECT_EQ(page["hosts"], 2);
  EXPECT_EQ(page["states"], (Json{{"live", 7}, {"lost", 1}}));
  ASSERT_EQ(page["lost"].size(), 1u);
  EXPECT_EQ(page["lost"][0]["state"], "lost: it died");
  EXPECT_EQ(page["at_unix_ms"], 5);
  EXPECT_LT(ViewJson("page", "", SomeJob(10'240), 0)->size(), 4096u);
}

TEST(ViewJsonTest, WorkersComeByPageAndTheWorstFirst) {
  const Json worst = View("workers", "order=alone&limit=2", SomeJob());
  EXPECT_EQ(worst["found"], 8);
  ASSERT_EQ(worst["workers"].size(), 2u);
  EXPECT_EQ(worst["workers"][0]["rank"], 3);
  const Json last = View("workers", "offset=7", SomeJob());
  ASSERT_EQ(last["workers"].size(), 1u);
  EXPECT_EQ(last["workers"][0]["rank"], 7);
  EXPECT_EQ(View("workers", "offset=99", SomeJob())["workers"].size(), 0u);
  EXPECT_EQ(View("workers", "host=id-1", SomeJob())["found"], 4);
  EXPECT_EQ(View("workers", "limit=100000", SomeJob(10'240))["workers"].size(), kMostRows);
  EXPECT_EQ(ViewJson("workers", "order=size", SomeJob(), 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ViewJsonTest, ARankIsFoundOrNamed) {
  EXPECT_EQ(View("rank", "rank=3", SomeJob())["worker"]["last_submitted"], "loss");
  const absl::Status missing = ViewJson("rank", "rank=8", SomeJob(), 0).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("job mnist has no worker of rank 8"));
}

TEST(ViewJsonTest, ChartsAreOfARankAHostOrTheWholeJobThatThereIs) {
  v1::GetJobResponse job;
  job.mutable_summary()->set_job("mnist");
  job.mutable_summary()->set_size(8);
  EXPECT_EQ(View("charts", "rank=7", job)["rank_history"]["at_unix_ms"], Json::array());
  EXPECT_EQ(View("charts", "rank=all", job)["rank_history"]["steps"], Json::array()) << "of a job in the queue";
  EXPECT_EQ(ViewJson("charts", "rank=8", job, 0).status().message(), "job mnist has no worker of rank 8");
  EXPECT_EQ(ViewJson("charts", "host=id-7", job, 0).status().message(), "job mnist has no rank on host id-7");
  job.mutable_rank_history()->add_at_unix_ms(7);
  EXPECT_FALSE(View("charts", "host=id-0", job).contains("network_history"));
  job.mutable_network_history()->add_sent_bytes(uint64_t{1} << 40);
  EXPECT_EQ(View("charts", "host=id-0", job)["network_history"]["sent_bytes"], (Json{uint64_t{1} << 40}));
  EXPECT_EQ(View("charts", "host=id-0", job)["rank_history"]["at_unix_ms"], (Json{7}));
}

TEST(JobViewTest, WhatIsWrittenOfAViewHasABound) {
  const JobView view(SomeJob(), absl::UnixEpoch());
  EXPECT_EQ(view.Find("view=page"), nullptr);
  HttpReply reply;
  reply.body = "text";
  view.Keep("view=page", reply);
  ASSERT_NE(view.Find("view=page"), nullptr);
  EXPECT_EQ(view.Find("view=page")->body, "text");
  size_t kept = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string query = absl::StrCat("view=workers&offset=", i);
    reply.body = std::string(100'000, 'x');
    view.Keep(query, reply);
    kept += view.Find(query) != nullptr ? 100'000 : 0;
  }
  EXPECT_GT(kept, JobView::kMostBytes / 2);
  EXPECT_LE(kept, JobView::kMostBytes);
}

TEST(ViewJsonTest, HostsHaveAveragesAndTheirNetwork) {
  const Json hosts = View("hosts", "", SomeJob());
  ASSERT_EQ(hosts["hosts"].size(), 2u);
  EXPECT_EQ(hosts["hosts"][0]["own_percent"], 60);
  EXPECT_FALSE(hosts["hosts"][0].contains("sent_bytes_per_second"));
  EXPECT_EQ(hosts["hosts"][1]["sent_bytes_per_second"], 1000);
  EXPECT_EQ(hosts["hosts"][1]["lost"], 1);
}

TEST(ViewJsonTest, AHostIsFoundHoweverManyComeBeforeIt) {
  const v1::GetJobResponse job = SomeJob(4 * 1000);
  EXPECT_EQ(View("hosts", "", job)["found"], 1000);
  for (const int number : {0, 1, 99, 100, 499, 500, 999}) {
    const std::string id = absl::StrCat("id-", number);
    const Json hosts = View("hosts", absl::StrCat("host=", id), job);
    EXPECT_EQ(hosts["found"], 1) << id;
    ASSERT_EQ(hosts["hosts"].size(), 1u) << id;
    EXPECT_EQ(hosts["hosts"][0]["host_id"], id);
    EXPECT_EQ(hosts["hosts"][0]["first_rank"], 4 * number);
    EXPECT_EQ(hosts["hosts"][0]["last_rank"], 4 * number + 3);
  }
  EXPECT_EQ(View("hosts", "host=id-1000", job)["found"], 0);
}

TEST(ViewJsonTest, CollectivesSayWhereTheRanksAre) {
  const Json found = View("collectives", "", SomeJob());
  EXPECT_EQ(found["measured"], 7);
  ASSERT_EQ(found["collectives"].size(), 2u);
  EXPECT_EQ(found["collectives"][0]["name"], "gradient");
  EXPECT_EQ(found["collectives"][0]["waiting"], 6);
  EXPECT_EQ(found["collectives"][0]["longest_wait_ms"], 107);
  EXPECT_EQ(found["collectives"][1]["first_rank"], 3);
}

TEST(ViewJsonTest, ARankIsAByte) {
  const std::string bytes = RankBytes(SomeJob());
  ASSERT_EQ(bytes.size(), 8u);
  EXPECT_EQ(bytes[0], 15) << "half of the time, in thirtieths";
  EXPECT_EQ(bytes[3], 27);
  EXPECT_EQ(static_cast<uint8_t>(bytes[5]), (3 << 5) + 31) << "lost, and not measured";
}

TEST(ViewJsonTest, AnUnknownViewIsNamed) {
  EXPECT_THAT(ViewJson("queue", "", SomeJob(), 0).status().message(), HasSubstr("view=queue is not page, "));
}

}  // namespace
}  // namespace farandole
