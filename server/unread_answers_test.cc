// Answers of a coordinator that nobody reads have a bound for each tenant.

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"
#include "server/testing/raw_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr char kListCheckpoints[] = "/farandole.v1.MonitorService/ListCheckpoints";
// As many as a job's catalogue needs for an answer of some 200 KiB.
constexpr int kCheckpoints = 50;
constexpr size_t kPathBytes = 4000;

class UnreadAnswersTest : public CoordinatorFixture {
 protected:
  UnreadAnswersTest() {
    options_.http = "127.0.0.1:0";
    // Half of it is for those who look.
    options_.bytes.tenant_queued = 2 << 20;
  }

  double Held(const std::string& tenant) const {
    const std::string text = HttpGet(coordinator_->http_address(), "/metrics", coordinator_->token()).body();
    const std::string row = absl::StrCat("farandole_held_bytes{kind=\"answers\",tenant=\"", tenant, "\"} ");
    const size_t at = text.find(row);
    double value = -1;
    if (at == std::string::npos) return value;
    EXPECT_TRUE(absl::SimpleAtod(text.substr(at + row.size(), text.find('\n', at) - at - row.size()), &value));
    return value;
  }
  void AwaitNothingHeld(const std::string& tenant) const {
    for (const absl::Time until = SteadyNow() + absl::Seconds(20); Held(tenant) != 0 && SteadyNow() < until;) {
    }
    EXPECT_EQ(Held(tenant), 0);
  }
  static void WriteLargeCatalogue(TestWorker* worker, const std::string& job) {
    for (int step = 1; step <= kCheckpoints; ++step) {
      const absl::Status written = TryCheckpoint(worker, job, step, absl::StrCat("/", std::string(kPathBytes, 'p')));
      ASSERT_TRUE(written.ok()) << written;
    }
  }
};

TEST_F(UnreadAnswersTest, AreChargedToTheirTenantAndThenRefused) {
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  const auto workers = Train("train", 1, greedy);
  const auto others = Train("train", 1, quiet);
  WriteLargeCatalogue(workers[0].get(), "train");
  v1::ListCheckpointsRequest request;
  request.set_job("train");
  request.set_page_size(1000);
  TestClient viewer = ClientOf(greedy);
  const auto listed = viewer.ListCheckpoints(request);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_GT(listed->ByteSizeLong(), kCheckpoints * kPathBytes);
  {
    RawClient client(coordinator_->address());
    client.Greet(/*reads=*/false);
    for (int i = 0; i < 100; ++i) client.Call(kListCheckpoints, greedy, request.SerializeAsString());
    // Those that are refused get their status.
    for (const absl::Time until = SteadyNow() + absl::Seconds(20); client.calls() > 10 && SteadyNow() < until;)
      client.Pump(absl::Milliseconds(100));
    EXPECT_LE(client.calls(), 3u) << "answers of 400 KiB in memory";
    EXPECT_GE(client.calls(), 1u);
    EXPECT_GT(Held("greedy"), 2 * kCheckpoints * kPathBytes);
    EXPECT_LE(Held("greedy"), 1 << 20);
    const absl::Status refused = viewer.ListCheckpoints(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("tenant greedy has "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(" of answers that clients have not read, and "));
    EXPECT_TRUE(viewer.ListJobs().ok()) << "a small one has room";
    AgreeOn("grad/0", workers);
    EXPECT_TRUE(ClientOf(quiet).GetJob("train").ok());
    EXPECT_TRUE(Client().GetJob("train", "greedy").ok());
  }
  AwaitNothingHeld("greedy");
  EXPECT_TRUE(viewer.ListCheckpoints(request).ok());
  Leave(workers);
  Leave(others);
}

TEST_F(UnreadAnswersTest, AClientThatReadsGetsAnAnswerOfAnySize) {
  // The answer has 400 KiB in memory.
  options_.bytes.tenant_queued = 256 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy");
  const auto workers = Train("train", 1, greedy);
  WriteLargeCatalogue(workers[0].get(), "train");
  v1::ListCheckpointsRequest request;
  request.set_job("train");
  request.set_page_size(1000);
  TestClient viewer = ClientOf(greedy);
  const auto listed = viewer.ListCheckpoints(request);
  EXPECT_TRUE(listed.ok()) << listed.status();
  AwaitNothingHeld("greedy");
  // Not while another one is out, and then the refusal says when to retry: such refusals come late.
  RawClient client(coordinator_->address());
  client.Greet(/*reads=*/false);
  client.Call("/farandole.v1.MonitorService/ListJobs", greedy, "");
  for (const absl::Time until = SteadyNow() + absl::Seconds(20); Held("greedy") <= 0 && SteadyNow() < until;)
    client.Pump(absl::Milliseconds(20));
  const absl::Time asked = SteadyNow();
  EXPECT_EQ(viewer.ListCheckpoints(request).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(SteadyNow() - asked, absl::Milliseconds(200));
  Leave(workers);
}

}  // namespace
}  // namespace farandole
