#include "server/queue/launch_queue.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "base/testing/log_lines.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/memory_store.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A store on a disk that may be full: then it reads, and writes nothing.
class FillableStore : public Store {
 public:
  void Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) override {
    if (is_full_) return done(Full());
    inner_->Acquire(std::move(owner), std::move(done));
  }
  void AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                   std::function<void(absl::StatusOr<AcquiredRows>)> done) override {
    inner_->AcquireRows(std::move(owner), std::move(keys), std::move(prefixes), std::move(done));
  }
  void Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
              std::function<void(absl::Status)> done) override {
    if (is_full_) return done(Full());
    inner_->Commit(std::move(owner), owner_revision, std::move(batch), std::move(done));
  }
  void Scan(std::string prefix, std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override {
    inner_->Scan(std::move(prefix), std::move(done));
  }
  void ScanPage(std::string prefix, std::string after, size_t most,
                std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override {
    inner_->ScanPage(std::move(prefix), std::move(after), most, std::move(done));
  }
  void Measure(std::vector<std::string> prefixes, std::function<void(absl::StatusOr<uint64_t>)> done) override {
    inner_->Measure(std::move(prefixes), std::move(done));
  }
  void Fill(bool is_full) { is_full_ = is_full; }

 private:
  static absl::Status Full() { return absl::UnavailableError("no space left on device"); }

  const std::unique_ptr<Store> inner_ = MakeMemoryStore();
  std::atomic<bool> is_full_{false};
};

class LaunchQueueTest : public ::testing::Test {
 protected:
  LaunchQueueTest() {
    v1::TenantRecord tenant;
    tenant.set_name("a");
    tenant.set_max_workers(2);
    EXPECT_TRUE(tenants_.Put(tenant).ok());
    tenant.set_name("b");
    EXPECT_TRUE(tenants_.Put(tenant).ok());
    v1::TokenRecord token;
    token.mutable_about()->set_id("launcher");
    token.mutable_about()->set_tenant("a");
    tenants_.tokens().Put(token);
    Start();
  }

  // Another life of the coordinator, on the same store.
  void Start() {
    queue_.reset();
    registry_ = std::make_unique<JobRegistry>();
    registry_started_ = SteadyNow();
    gate_ = std::make_unique<QuotaGate>(&tenants_, registry_.get(), &SteadyNow);
    LaunchQueue::Dependencies dependencies{&store_, &tenants_, registry_.get(), gate_.get(), &metrics_, {}};
    dependencies.claim = [this](const JobKey& key, const v1::CreateJobRequest& request, LaunchQueue::Finish finish) {
      Claim(key, request, std::move(finish));
    };
    LaunchQueue::Options options;
    options.settling = settling_;
    queue_ = std::make_unique<LaunchQueue>(std::move(dependencies), options);
    registry_->SetRoomListener([this] { queue_->Look(); });
    ASSERT_TRUE(queue_->Load().ok());
  }

  // As a job that takes what comes, or cannot be written.
  void Claim(const JobKey& key, const v1::CreateJobRequest& request, const LaunchQueue::Finish& finish) {
    v1::CreateJobResponse response;
    *response.mutable_launch() = request.launch();
    if (refuses_claims_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++refused_;
      claimed_.notify_all();
    }
    if (refuses_claims_) return finish(absl::UnavailableError("no space left on device"), {});
    if (key.tenant == full_tenant_) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        started_.push_back(absl::StrCat(key.job, " was refused"));
      }
      if (on_refusal_ != nullptr) std::exchange(on_refusal_, nullptr)();
      return finish(absl::ResourceExhaustedError("no room for events"), {});
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      started_.push_back(key.job);
    }
    finish(absl::OkStatus(), response);
  }
  void AwaitRefusedClaims(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    claimed_.wait(lock, [&] { return refused_ >= count; });
  }

  v1::CreateJobRequest RequestOf(const std::string& job, uint32_t workers) const {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    request.mutable_launch()->set_who("somebody");
    request.mutable_launch()->set_token_id("launcher");
    request.mutable_launch()->set_since_unix_ms(since_);
    request.set_most_workers(workers);
    request.set_may_wait(true);
    request.set_hold_ms(1000);
    return request;
  }
  std::future<absl::StatusOr<v1::CreateJobResponse>> Ask(const std::string& job, uint32_t workers, uint64_t seen = 0) {
    v1::CreateJobRequest request = RequestOf(job, workers);
    request.set_seen_place(seen);
    return Send(request);
  }
  std::future<absl::StatusOr<v1::CreateJobResponse>> Send(const v1::CreateJobRequest& request,
                                                          const std::string& tenant = "a") {
    // shared: by the call's answer, of which the queue keeps a copy.
    auto answer = std::make_shared<std::promise<absl::StatusOr<v1::CreateJobResponse>>>();
    queue_->Launch({tenant, request.job()}, request, [answer](const absl::Status& status, ReplyMessage message) {
      if (!status.ok()) return answer->set_value(status);
      answer->set_value(std::get<v1::CreateJobResponse>(std::move(message)));
    });
    return answer->get_future();
  }
  absl::StatusOr<v1::CreateJobResponse> Launch(const std::string& job, uint32_t workers) {
    return Ask(job, workers).get();
  }
  void End(const std::string& job) { registry_->Update({"a", job}, v1::JobSummary()); }
  std::vector<std::string> Rows() {
    std::vector<std::string> keys;
    const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(&store_, "queue/");
    for (const StoreRow& row : *rows) keys.push_back(row.key);
    return keys;
  }
  // Of the room that a claim has got, its job has heard.
  void Arrive(const std::string& job, const std::string& tenant = "a") {
    ASSERT_TRUE(gate_->Admit({tenant, job}, 1).ok());
  }

  // Asks until the launch may start.
  void AwaitStart(const std::string& job) {
    absl::StatusOr<v1::CreateJobResponse> answer = Launch(job, 2);
    while (answer.ok() && answer->has_queue()) answer = Ask(job, 2, answer->queue().serial()).get();
    EXPECT_TRUE(answer.ok()) << answer.status();
  }

  void AwaitPosition(const std::string& job, uint32_t wanted) {
    absl::StatusOr<v1::CreateJobResponse> answer = Launch(job, 2);
    while (answer.ok() && answer->queue().position() != wanted) answer = Ask(job, 2, answer->queue().serial()).get();
    EXPECT_TRUE(answer.ok() && answer->has_queue()) << answer.status();
  }

  // Its jobs have no room for claims; "": no tenant's. Called once, when the first one is refused.
  std::string full_tenant_;
  std::function<void()> on_refusal_;
  // Of the launches that ask.
  int64_t since_ = 0;
  absl::Time registry_started_;
  absl::Duration settling_ = absl::ZeroDuration();
  FillableStore store_;
  Tenants tenants_;
  Metrics metrics_{"test", absl::UnixEpoch()};
  std::unique_ptr<JobRegistry> registry_;
  std::unique_ptr<QuotaGate> gate_;
  std::mutex mutex_;
  std::condition_variable claimed_;
  std::vector<std::string> started_;
  int refused_ = 0;
  std::atomic<bool> refuses_claims_{false};
  std::unique_ptr<LaunchQueue> queue_;
};

TEST_F(LaunchQueueTest, APlaceIsOnDiskBeforeItIsToldAndGoesWithTheStart) {
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  Arrive("now");
  EXPECT_THAT(Rows(), IsEmpty());
  const auto waits = Launch("x", 2);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_THAT(Rows(), ElementsAre("queue/a/x"));
  auto next = Ask("x", 2, waits->queue().serial());
  End("now");
  const absl::StatusOr<v1::CreateJobResponse> started = next.get();
  EXPECT_FALSE(started->has_queue());
  EXPECT_GT(started->launch().queued_unix_ms(), 0);
  EXPECT_EQ(started->launch().queued_unix_ms(), waits->launch().since_unix_ms()) << "its job hears how long it waited";
  EXPECT_THAT(started_, ElementsAre("now", "x"));
  // The row is deleted behind its last change.
  ASSERT_TRUE(Launch("y", 2)->has_queue());
  EXPECT_THAT(Rows(), ElementsAre("queue/a/y"));
}

TEST_F(LaunchQueueTest, AFullDiskLosesNoPlaceAndANewLaunchIsToAskAgain) {
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  Arrive("now");
  const uint64_t seen = Launch("x", 2)->queue().serial();
  store_.Fill(true);
  const absl::Status refused = Launch("y", 2).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("job y: its place in the queue cannot be written: no space left on device"));
  EXPECT_EQ(Launch("x", 2)->queue().position(), 1u) << "it was promised its place";
  // Its job cannot be written either.
  refuses_claims_ = true;
  auto next = Ask("x", 2, seen + 1'000'000);
  End("now");
  AwaitRefusedClaims(2);
  EXPECT_THAT(Rows(), ElementsAre("queue/a/x"));
  EXPECT_EQ(Launch("y", 2).status().code(), absl::StatusCode::kUnavailable);
  refuses_claims_ = false;
  store_.Fill(false);
  while (next.get()->has_queue()) next = Ask("x", 2, 0);
  EXPECT_EQ(started_.back(), "x");
  Arrive("x");
  absl::StatusOr<v1::CreateJobResponse> y = Launch("y", 2);
  while (!y.ok()) y = Launch("y", 2);
  EXPECT_TRUE(y->has_queue());
}

TEST_F(LaunchQueueTest, PlacesAndSinceWhenOneIsTheFirstOutliveTheProcess) {
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  for (const char* job : {"x", "y"}) ASSERT_TRUE(Launch(job, 2)->has_queue());
  v1::QueuedRecord record;
  do {
    ASSERT_TRUE(record.ParseFromString(ScanAndWait(&store_, "queue/a/x")->front().value));
  } while (record.first_since_unix_ms() == 0);
  EXPECT_NEAR(static_cast<double>(record.first_since_unix_ms()), static_cast<double>(absl::ToUnixMillis(absl::Now())),
              60'000);
  settling_ = absl::Seconds(2);
  Start();
  EXPECT_EQ(registry_->FindQueued({"a", "y"})->queue().position(), 2u);
  // A launch that comes now comes last; the one that has started renews its claim, and keeps its room.
  EXPECT_EQ(Launch("z", 1)->queue().length(), 3u);
  since_ = 1;
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  since_ = 0;
  Arrive("now");
  AwaitPosition("x", 1);
  while (SteadyNow() < registry_started_ + 2 * settling_) (void)Ask("x", 2, Launch("x", 2)->queue().serial()).get();
  EXPECT_THAT(started_, ElementsAre("now", "now"));
  End("now");
  AwaitStart("x");
  AwaitPosition("y", 1);
}

TEST_F(LaunchQueueTest, ATenantWithoutRoomForEventsHoldsUpNoOther) {
  for (const char* tenant : {"a", "b"}) {
    ASSERT_FALSE(Send(RequestOf("runs", 2), tenant).get()->has_queue());
    Arrive("runs", tenant);
    ASSERT_TRUE(Send(RequestOf("waits", 2), tenant).get()->has_queue());
  }
  full_tenant_ = "a";
  on_refusal_ = [this] { registry_->Update({"b", "runs"}, v1::JobSummary()); };
  End("runs");
  absl::StatusOr<v1::CreateJobResponse> answer = Send(RequestOf("waits", 2), "b").get();
  while (answer.ok() && answer->has_queue()) answer = Send(RequestOf("waits", 2), "b").get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  ASSERT_GE(started_.size(), 4u);
  started_.resize(4);
  EXPECT_THAT(started_, ElementsAre("runs", "runs", "waits was refused", "waits"));
}

TEST_F(LaunchQueueTest, ALaunchWhoseTokenWasRevokedDoesNotStart) {
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  Arrive("now");
  auto next = Ask("x", 2, Launch("x", 2)->queue().serial());
  v1::TokenRecord token = *tenants_.tokens().Find("launcher");
  token.mutable_about()->set_revoked_unix_ms(1);
  tenants_.tokens().Put(token);
  End("now");
  EXPECT_EQ(next.get().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(registry_->HasRoom({"a", "x"}));
  EXPECT_THAT(started_, ElementsAre("now"));
}

TEST_F(LaunchQueueTest, TheEndOfALaunchIsNotThatOfAnotherWithItsNonce) {
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  Arrive("now");
  // A launch that takes part in another knows its nonce.
  v1::CreateJobRequest other = RequestOf("other", 2);
  other.mutable_launch()->set_nonce(RequestOf("own", 2).launch().nonce());
  other.mutable_launch()->set_token_id("another");
  ASSERT_TRUE(Send(other).get()->has_queue());
  other.set_release(true);
  ASSERT_TRUE(Send(other).get().ok());
  EXPECT_TRUE(Launch("own", 2)->has_queue());
  other.set_release(false);
  EXPECT_EQ(Send(other).get().status().code(), absl::StatusCode::kAborted) << "its own has ended";
  // Nor does the same token's launch of another job end by it.
  v1::CreateJobRequest third = RequestOf("third", 2);
  third.mutable_launch()->set_nonce(other.launch().nonce());
  third.mutable_launch()->set_token_id("another");
  EXPECT_TRUE(Send(third).get()->has_queue());
}

TEST_F(LaunchQueueTest, ALauncherThatComesAndGoesIsRefusedAndFillsNoLog) {
  LogLines lines;
  ASSERT_FALSE(Launch("now", 2)->has_queue());
  Arrive("now");
  absl::Status last;
  int pairs = 0;
  for (; pairs < 1500 && last.ok(); ++pairs) {
    v1::CreateJobRequest request = RequestOf(absl::StrCat("j", pairs), 2);
    auto waits = Send(request);
    request.set_release(true);
    EXPECT_TRUE(Send(request).get().ok());
    last = waits.get().status();
    if (absl::IsAborted(last)) last = absl::OkStatus();
  }
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(last).has_value());
  EXPECT_GE(pairs, 900);
  EXPECT_TRUE(Launch("now", 2).ok()) << "a job that runs renews its claim";
  queue_.reset();
  EXPECT_LT(lines.Take().size(), 100u) << "of 2000 launches and releases";
}

}  // namespace
}  // namespace farandole
