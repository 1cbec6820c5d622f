#include "server/edge/live_events.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LiveEventsTest : public ::testing::Test {
 protected:
  LiveEventsTest()
      : events_(
            &jobs_,
            [this](const HttpRequest& request) {
              return HttpCaller{IdentityOf(request.token), std::nullopt};
            },
            [this](const JobKey& key) { news_ += key.job + " "; }, [this] { return now_; }) {
    // Silence begins now.
    events_.Tick();
  }

  HttpIdentity IdentityOf(const std::string& token) const {
    if (token == revoked_) return {};
    return token == "admin" ? HttpIdentity{HttpAccess::kAdmin, "default"} : HttpIdentity{HttpAccess::kTenant, token};
  }
  std::shared_ptr<EventStream> Open(const std::string& token, const std::string& query = "",
                                    const std::string& last = "") {
    HttpRequest request;
    request.token = token;
    request.query = query;
    request.last_event = last;
    return events_.Open(request, IdentityOf(token)).stream;
  }
  void Update(const std::string& tenant, const std::string& job, double rate, const std::string& reason = "runs") {
    v1::JobSummary summary;
    summary.set_tenant(tenant);
    summary.set_job(job);
    summary.set_state(v1::JOB_STATE_RUNNING);
    summary.set_reason(reason);
    summary.set_created_unix_ms(1);
    summary.set_batches_per_second(rate);
    summary.set_steps_per_second(rate / 2);
    jobs_.Update({tenant, job}, summary);
  }
  void Tick(absl::Duration after = absl::Milliseconds(250)) {
    now_ += after;
    events_.Tick();
  }
  static std::string LastId(const std::string& text) {
    const size_t start = text.rfind("id: ") + 4;
    return text.substr(start, text.find('\n', start) - start);
  }

  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::string revoked_ = "none";
  std::string news_;
  JobRegistry jobs_;
  LiveEvents events_;
};

TEST_F(LiveEventsTest, AFirstReaderIsToldToAskForAll) {
  EXPECT_THAT(Open("admin")->Take(), AllOf(HasSubstr("retry: 1000\n\n"), HasSubstr("event: reset\n")));
}

TEST_F(LiveEventsTest, AChangeIsToldToThoseWhoMaySeeIt) {
  const auto admin = Open("admin");
  const auto own = Open("team");
  const auto other = Open("others");
  for (const auto& stream : {admin, own, other}) stream->Take();
  Update("team", "mnist", 5);
  Tick();
  const std::string text = admin->Take();
  EXPECT_THAT(text, AllOf(HasSubstr("event: jobs\n"), HasSubstr("\"reason\":\"runs\"")));
  EXPECT_EQ(own->Take(), text);
  EXPECT_EQ(other->Take(), "");
  Tick();
  EXPECT_EQ(admin->Take(), "") << "once";
  EXPECT_EQ(news_, "mnist ");
}

TEST_F(LiveEventsTest, DeletedJobsAreAResetAndOneAtMostInFiveSeconds) {
  const auto stream = Open("team");
  for (const char* job : {"one", "two", "three"}) Update("team", job, 5);
  Tick();
  stream->Take();
  jobs_.Forget({"team", "one"});
  Tick();
  EXPECT_THAT(stream->Take(), HasSubstr("event: reset\n"));
  jobs_.Forget({"team", "two"});
  Tick();
  jobs_.Forget({"team", "three"});
  Tick();
  EXPECT_THAT(stream->Take(), Not(HasSubstr("event: reset\n")));
  Tick(LiveEvents::kBetweenDeletions);
  EXPECT_THAT(stream->Take(), HasSubstr("event: reset\n"));
}

TEST_F(LiveEventsTest, DeletedJobsResetTheirTenantsPagesAndThoseThatSeeAll) {
  const auto own = Open("team");
  const auto other = Open("others");
  const auto admin = Open("admin");
  for (const char* tenant : {"team", "others"}) Update(tenant, "one", 5);
  Tick();
  for (const auto& stream : {own, other, admin}) stream->Take();
  jobs_.Forget({"team", "one"});
  Tick();
  EXPECT_THAT(own->Take(), HasSubstr("event: reset\n"));
  EXPECT_THAT(admin->Take(), HasSubstr("event: reset\n"));
  EXPECT_EQ(other->Take(), "");
  jobs_.Forget({"others", "one"});
  Tick();
  EXPECT_THAT(other->Take(), HasSubstr("event: reset\n")) << "it has its own 5 s";
  EXPECT_EQ(admin->Take(), "");
}

TEST_F(LiveEventsTest, ManyChangesResetTheirTenantsPagesAndThoseThatSeeAll) {
  const auto own = Open("team");
  const auto other = Open("others");
  const auto admin = Open("admin");
  for (const auto& stream : {own, other, admin}) stream->Take();
  for (size_t job = 0; job <= LiveEvents::kMostAtOnce; ++job) Update("team", absl::StrCat("job-", job), 1);
  Update("others", "mnist", 1);
  Tick();
  EXPECT_THAT(own->Take(), HasSubstr("event: reset\n"));
  EXPECT_THAT(admin->Take(), HasSubstr("event: reset\n"));
  EXPECT_THAT(other->Take(), AllOf(HasSubstr("mnist"), Not(HasSubstr("event: reset\n"))));
}

TEST_F(LiveEventsTest, TheNumberOfAnEventTellsNothingOfOtherTenants) {
  const auto number_of = [](const std::string& id) { return std::stoi(id.substr(id.find('.') + 1)); };
  const auto stream = Open("team");
  const auto admin = Open("admin");
  Update("team", "mnist", 1, "first");
  Tick();
  const int first = number_of(LastId(stream->Take()));
  for (int i = 0; i < 5; ++i) {
    Update("others", "theirs", 1, absl::StrCat("reason ", i));
    Tick();
  }
  Update("team", "mnist", 1, "second");
  Tick();
  EXPECT_EQ(number_of(LastId(stream->Take())), first + 1);
}

TEST_F(LiveEventsTest, AQuietTenantsNumbersDoNotWaitForTheManyOfAnother) {
  const auto stream = Open("quiet");
  for (const double rate : {1.0, 2.0}) {
    for (int job = 0; job < 500; ++job) Update("busy", absl::StrCat("job-", job), rate);
    Update("quiet", "mnist", rate);
    Tick(absl::Seconds(3));
  }
  EXPECT_THAT(stream->Take(), HasSubstr("\"batches_per_second\":2"));
}

TEST_F(LiveEventsTest, NumbersComeEveryTwoSecondsAndNewsAtOnce) {
  const auto stream = Open("admin");
  Update("team", "mnist", 5);
  Tick();
  stream->Take();
  Update("team", "mnist", 6);
  Tick();
  EXPECT_EQ(stream->Take(), "");
  Tick(absl::Seconds(2));
  EXPECT_THAT(stream->Take(), AllOf(HasSubstr("\"batches_per_second\":6"), HasSubstr("\"steps_per_second\":3"),
                                    Not(HasSubstr("reason"))));
  Update("team", "mnist", 7, "rank 3 died");
  Tick();
  EXPECT_THAT(stream->Take(), HasSubstr("rank 3 died"));
}

TEST_F(LiveEventsTest, AReaderGetsFourKilobytesASecondHoweverManyJobsRun) {
  const auto stream = Open("admin");
  constexpr int kJobs = 500;
  constexpr int kTicks = 40;
  for (int job = 0; job < kJobs; ++job) Update("team", absl::StrCat("job-", job), 1);
  Tick();
  EXPECT_THAT(stream->Take(), HasSubstr("event: reset"));
  size_t bytes = 0;
  for (int tick = 0; tick < kTicks; ++tick) {
    for (int job = 0; job < kJobs; ++job) Update("team", absl::StrCat("job-", job), tick);
    Tick();
    bytes += stream->Take().size();
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes / (kTicks / 4), 4096u) << "a second";
}

TEST_F(LiveEventsTest, AReaderThatComesBackIsSentWhatItHasMissed) {
  const auto stream = Open("team");
  Update("team", "first", 1);
  Tick();
  const std::string last = LastId(stream->Take());
  stream->End();
  Update("team", "second", 1);
  Update("others", "theirs", 1);
  Tick();
  for (const bool by_header : {true, false}) {
    const auto again = by_header ? Open("team", "", last) : Open("team", absl::StrCat("after=", last));
    EXPECT_THAT(again->Take(),
                AllOf(HasSubstr("second"), Not(HasSubstr("first")), Not(HasSubstr("theirs")), Not(HasSubstr("reset"))));
  }
}

TEST_F(LiveEventsTest, WhatIsNotKnownAnyMoreIsAReset) {
  const auto stream = Open("team");
  Update("team", "first", 1);
  Tick();
  const std::string last = LastId(stream->Take());
  for (size_t i = 0; i <= LiveEvents::kMostKept; ++i) {
    Update("team", "first", 1, absl::StrCat("reason ", i));
    Tick();
    stream->Take();
  }
  EXPECT_THAT(Open("team", "", last)->Take(), HasSubstr("event: reset"));
  EXPECT_THAT(Open("team", "", "another-life.5")->Take(), HasSubstr("event: reset"));
  EXPECT_THAT(Open("team", "", "nonsense")->Take(), HasSubstr("event: reset"));
}

TEST_F(LiveEventsTest, NothingIsKeptForLongWithoutAReader) {
  const auto stream = Open("team");
  Update("team", "first", 1);
  Tick();
  const std::string last = LastId(stream->Take());
  stream->End();
  Tick();
  Tick(LiveEvents::kRemembered + absl::Seconds(1));
  EXPECT_THAT(Open("team", "", last)->Take(), HasSubstr("event: reset"));
}

TEST_F(LiveEventsTest, AWatchedJobThatRunsIsWorthALookEachSecond) {
  Update("team", "mnist", 1);
  const auto watches = Open("team", "job=team%2Fmnist&job=others%2Ftheirs");
  Update("team", "mnist", 2);
  watches->Take();
  int looks = 0;
  for (int tick = 0; tick < 12; ++tick) {
    Tick();
    const std::string text = watches->Take();
    looks += text.find("event: look\ndata: {\"tenant\":\"team\",\"job\":\"mnist\"}\n") != std::string::npos ? 1 : 0;
    EXPECT_THAT(text, Not(HasSubstr("theirs")));
  }
  EXPECT_EQ(looks, 3);
}

TEST_F(LiveEventsTest, ARevokedTokenEndsItsStream) {
  const auto own = Open("team");
  const auto other = Open("others");
  revoked_ = "team";
  Tick(absl::Seconds(3));
  EXPECT_FALSE(own->is_open());
  EXPECT_TRUE(other->is_open());
  EXPECT_EQ(events_.readers(), 1u);
}

TEST_F(LiveEventsTest, ASlowReaderIsCutOffAndCostsTheOthersNothing) {
  const auto slow = Open("admin");
  const auto reader = Open("admin");
  reader->Take();
  int changes = 0;
  while (slow->is_open()) {
    Update("team", "mnist", 1, absl::StrCat("reason ", ++changes));
    Tick();
    EXPECT_THAT(reader->Take(), HasSubstr(absl::StrCat("reason ", changes)));
    ASSERT_LT(changes, 1000);
  }
  Tick();
  EXPECT_EQ(events_.readers(), 1u);
}

TEST_F(LiveEventsTest, SilenceIsBrokenForProxies) {
  const auto stream = Open("admin");
  Tick();
  stream->Take();
  Tick(absl::Seconds(15));
  EXPECT_EQ(stream->Take(), ":\n\n");
}

TEST_F(LiveEventsTest, ReadersAreBounded) {
  std::vector<std::shared_ptr<EventStream>> streams;
  for (size_t i = 0; i < LiveEvents::kMostReaders; ++i) streams.push_back(Open("admin"));
  const HttpReply refused = events_.Open(HttpRequest(), IdentityOf("admin"));
  EXPECT_EQ(refused.status, 503u);
  streams.front()->End();
  Tick();
  EXPECT_NE(Open("admin"), nullptr);
}

TEST_F(LiveEventsTest, ATenantWithManyReadersGivesPlacesToOthers) {
  std::vector<std::shared_ptr<EventStream>> greedy;
  for (size_t i = 0; i < LiveEvents::kMostReaders; ++i) greedy.push_back(Open("greedy"));
  const std::shared_ptr<EventStream> first = Open("quiet");
  const std::shared_ptr<EventStream> second = Open("quiet");
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_FALSE(greedy.back()->is_open()) << "its newest give way";
  EXPECT_TRUE(greedy.front()->is_open());
  EXPECT_EQ(events_.readers(), LiveEvents::kMostReaders);
  EXPECT_EQ(events_.Open(HttpRequest(), IdentityOf("greedy")).status, 503u);
  EXPECT_TRUE(first->is_open() && second->is_open());
}

TEST_F(LiveEventsTest, MembersOfTheDefaultTenantLeavePlacesToTheCluster) {
  std::vector<std::shared_ptr<EventStream>> greedy;
  for (size_t i = 0; i < LiveEvents::kMostReaders; ++i) greedy.push_back(Open("default"));
  const std::shared_ptr<EventStream> root = Open("admin");
  ASSERT_NE(root, nullptr);
  EXPECT_FALSE(greedy.back()->is_open());
  EXPECT_EQ(events_.Open(HttpRequest(), IdentityOf("default")).status, 503u);
  EXPECT_TRUE(root->is_open());
}

}  // namespace
}  // namespace farandole
