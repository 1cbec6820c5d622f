#include "server/edge/job_views.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "server/edge/output_router.h"
#include "server/loop/job_loops.h"
#include "server/metrics/metrics.h"
#include "server/queue/quota_gate.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"
#include "server/store/memory_store.h"

namespace farandole {
namespace {

using View = std::shared_ptr<const JobView>;

const JobKey kJob = {"default", "train"};

// One worker of a job has joined, of which people see views.
class JobViewsTest : public ::testing::Test {
 protected:
  JobViewsTest() {
    JobLoopOptions options;
    options.random_bytes = [](size_t bytes) { return std::string(bytes, 's'); };
    loops_ = std::make_unique<JobLoops>(
        1, options, JobLoopDependencies{store_.get(), &outputs_, &metrics_, &jobs_, &tenants_, &gate_});
    router_ = std::make_unique<CallRouter>(&tenants_, nullptr, loops_.get(), &outputs_, &metrics_, nullptr);
    views_ = std::make_unique<JobViews>(router_.get(), [this] { return now_; });
    v1::JoinRequest join;
    join.set_job(kJob.job);
    join.mutable_member()->set_incarnation(absl::StrFormat("%032x", 1));
    join.mutable_member()->set_host_id("host");
    join.mutable_member()->set_pid(1);
    join.set_wanted_size(2);
    join.set_protocol_version(1);
    join.set_join_timeout_ms(600'000);
    join.set_stall_warning_ms(60'000);
    std::promise<absl::Status> joined;
    router_->Push(
        kJob,
        [&join](CallId call) {
          return JoinRequested{call, join};
        },
        [&joined](const absl::Status& status, const ReplyMessage&) { joined.set_value(status); });
    EXPECT_TRUE(joined.get_future().get().ok());
  }
  ~JobViewsTest() override {
    loops_->Stop();
    outputs_.calls().AnswerAll(absl::UnavailableError("the test ends"));
  }

  // A view of its history of so many seconds; of none: the job's.
  std::future<View> Ask(std::optional<int> seconds) {
    std::optional<HistoryAsked> history;
    if (seconds.has_value()) history = HistoryAsked{0, 0, "", absl::Seconds(*seconds)};
    // shared: by the answer, of which there are copies.
    const auto asked = std::make_shared<std::promise<View>>();
    views_->Ask(Access{}, kJob, history, [asked](const absl::Status& status, View view) {
      EXPECT_TRUE(status.ok()) << status;
      asked->set_value(std::move(view));
    });
    return asked->get_future();
  }
  // The loop answers nothing until `go` is set.
  void Hold(std::future<void> go) {
    const auto held = std::make_shared<std::future<void>>(std::move(go));
    router_->Push(
        kJob, [](CallId call) { return JobInspected{call}; },
        [held](const absl::Status&, const ReplyMessage&) { held->wait(); });
  }

  void AwaitLoop() {
    const auto answered = std::make_shared<std::promise<void>>();
    router_->Push(
        kJob, [](CallId call) { return JobInspected{call}; },
        [answered](const absl::Status&, const ReplyMessage&) { answered->set_value(); });
    answered->get_future().wait();
  }

  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::unique_ptr<Store> store_ = MakeMemoryStore();
  Tenants tenants_;
  JobRegistry jobs_;
  QuotaGate gate_{&tenants_, &jobs_, &SteadyNow};
  Metrics metrics_{"test", absl::UnixEpoch()};
  OutputRouter outputs_;
  std::unique_ptr<JobLoops> loops_;
  std::unique_ptr<CallRouter> router_;
  std::unique_ptr<JobViews> views_;
};

TEST_F(JobViewsTest, AFreshViewIsForAll) {
  const View first = Ask(std::nullopt).get();
  now_ += JobViews::kFresh / 2;
  EXPECT_EQ(Ask(std::nullopt).get(), first);
  now_ += JobViews::kFresh;
  EXPECT_NE(Ask(std::nullopt).get(), first);
}

TEST_F(JobViewsTest, OfManyThatComeAtOnceAsManyAreKeptAsHavePlaces) {
  std::promise<void> go;
  Hold(go.get_future());
  std::vector<std::future<View>> asked;
  for (int seconds = 1; seconds <= 200; ++seconds) asked.push_back(Ask(seconds));
  go.set_value();
  std::vector<std::weak_ptr<const JobView>> views;
  for (std::future<View>& one : asked) views.push_back(one.get());
  asked.clear();
  // The loop lets go of a view behind its answer, and before the next one.
  AwaitLoop();
  const auto kept = std::count_if(views.begin(), views.end(), [](const auto& view) { return !view.expired(); });
  EXPECT_EQ(kept, static_cast<ptrdiff_t>(JobViews::kMostKept));
}

}  // namespace
}  // namespace farandole
