#include "server/audit/change_audit.h"

#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string FreshDirectory() {
  std::string directory = absl::StrCat(testing::TempDir(), "/audit-XXXXXX");
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  return directory;
}

class ChangeAuditTest : public testing::Test {
 protected:
  ChangeAuditTest() {
    for (char token = 'a'; token < 'h'; ++token) tenants_.tokens().Put(Token(token));
  }

  static v1::TokenRecord Token(char token) {
    v1::TokenRecord record;
    record.mutable_about()->set_id(Caller("", token).token_id);
    return record;
  }

  // Of one of a tenant's tokens, which has a letter.
  static Access Caller(const std::string& tenant, char token = 'a', v1::Role role = v1::ADMIN) {
    return {tenant, role, absl::StrCat("012345678abcdef", std::string(1, token))};
  }

  // Keeps the thread from the tasks that come next, until the end or GoOn.
  void Hold() {
    absl::Notification holds;
    audit_->Allow(Caller("holder"), kCall, 0, [&](const absl::Status&) {
      holds.Notify();
      goes_on_.WaitForNotification();
    });
    holds.WaitForNotification();
  }
  // Lets it write all.
  void GoOn() {
    goes_on_.Notify();
    audit_.reset();
  }

  // A change, told by its name when its line is there. The refusal, where it is refused at once.
  absl::Status Change(const Access& caller, const std::string& name, size_t bytes = 100) {
    const auto refused = std::make_shared<absl::Status>();
    audit_->Allow(caller, kCall, bytes, [this, name, refused](const absl::Status& allowed) {
      const absl::MutexLock lock(&mutex_);
      if (allowed.ok()) done_.push_back(name);
      *refused = allowed;
      if (!allowed.ok()) refused_.push_back(std::string(allowed.message()));
    });
    const absl::MutexLock lock(&mutex_);
    return *refused;
  }

  std::vector<std::string> Done() {
    const absl::MutexLock lock(&mutex_);
    return done_;
  }

  const AuditLog::Call kCall = {"AdminService.AbortJob", "", "job"};
  const std::string directory_ = FreshDirectory();
  const std::unique_ptr<AuditLog> log_ = AuditLog::Open(directory_).value();
  Tenants tenants_;
  absl::Notification goes_on_;
  std::unique_ptr<ChangeAudit> audit_ = std::make_unique<ChangeAudit>(log_.get(), &tenants_);
  absl::Mutex mutex_;
  std::vector<std::string> done_;
  std::vector<std::string> refused_;
};

TEST_F(ChangeAuditTest, TenantsTakeTurnsAndTheirCallersAndNobodyWhoAsksWaits) {
  Hold();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Change(Caller("greedy"), absl::StrCat("greedy", i)).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Change(Caller("greedy", 'b'), absl::StrCat("its other caller", i)).ok());
  EXPECT_TRUE(Change(Caller("quiet"), "quiet").ok());
  EXPECT_THAT(Done(), IsEmpty());
  GoOn();
  EXPECT_THAT(Done(), ElementsAre("quiet", "greedy0", "its other caller0", "greedy1", "its other caller1", "greedy2",
                                  "greedy3"));
  const absl::StatusOr<ChainVerdict> verdict = VerifyChain(directory_, kChanges);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->lines, 8u);
}

TEST_F(ChangeAuditTest, RolesOfTheClusterHaveATurnOfTheirOwn) {
  Hold();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Change(Caller("default"), absl::StrCat("default", i)).ok());
  for (const v1::Role role : {v1::ROOT, v1::CLUSTER_OPERATOR})
    EXPECT_TRUE(Change(Caller("default", 'a', role), RoleName(role)).ok());
  GoOn();
  EXPECT_THAT(Done(), ElementsAre("root", "default0", "cluster operator", "default1", "default2"));
}

TEST_F(ChangeAuditTest, SoManyOfACallerAndOfItsTenantWaitAndNobodyKeepsAnotherCallerOut) {
  Hold();
  size_t taken = 0;
  const auto fill = [&](const Access& caller, size_t most) {
    size_t own = 0;
    while (own <= most && Change(caller, absl::StrCat(taken)).ok()) ++own, ++taken;
    return own;
  };
  EXPECT_EQ(fill(Caller("greedy"), 1000), ChangeAudit::kMostOfCaller);
  const absl::Status refused = Change(Caller("greedy"), "");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "nothing was changed: 64 changes of token 012345678abcdefa (admin of tenant greedy) wait until they are "
            "audited; retry in 1s");
  EXPECT_EQ(RetryDelayOf(refused), kRetryWhenFull);
  for (const char token : {'b', 'c', 'd'}) EXPECT_EQ(fill(Caller("greedy", token), 1000), ChangeAudit::kMostOfCaller);
  for (const char token : {'e', 'f'}) EXPECT_EQ(fill(Caller("greedy", token), 1000), 1u) << "as a revocation may be";
  EXPECT_THAT(std::string(Change(Caller("greedy", 'e'), "").message()),
              testing::HasSubstr("258 changes of tenant greedy wait"));
  EXPECT_EQ(fill(Caller("quiet"), 10), 11u);
  EXPECT_EQ(fill(Caller("greedy", 'a', v1::ROOT), 10), 11u);
  size_t failures = 0;
  for (int i = 0; i < 100; ++i) {
    audit_->TellFailed(Caller("greedy"), kCall, absl::InternalError("no"), [&] { ++failures; });
  }
  GoOn();
  EXPECT_THAT(Done(), SizeIs(taken));
  EXPECT_EQ(failures, 100u);
}

TEST_F(ChangeAuditTest, ManyBytesWaitForNoCallerAndForNoTenant) {
  Hold();
  constexpr size_t kMost = ChangeAudit::kMostBytesOfCaller;
  EXPECT_TRUE(Change(Caller("a"), "larger than all", 2 * kMost).ok()) << "where none waits";
  EXPECT_FALSE(Change(Caller("a"), "", 1).ok());
  EXPECT_TRUE(Change(Caller("b"), "a half", kMost / 2).ok());
  EXPECT_TRUE(Change(Caller("b"), "the other half", kMost / 2).ok());
  EXPECT_FALSE(Change(Caller("b"), "", 1).ok());
  for (const char token : {'b', 'c', 'd'}) EXPECT_TRUE(Change(Caller("b", token), "as much", kMost).ok());
  EXPECT_TRUE(Change(Caller("b", 'e'), "another one's", kMost).ok());
  EXPECT_FALSE(Change(Caller("b", 'e'), "", 0).ok());
  GoOn();
  EXPECT_THAT(Done(), SizeIs(7));
}

TEST_F(ChangeAuditTest, ThereIsRoomAgainForThoseThatWereWritten) {
  for (int round = 0; round < 3; ++round) {
    absl::Notification is_last;
    for (size_t i = 1; i < ChangeAudit::kMostOfCaller; ++i) EXPECT_TRUE(Change(Caller("a"), "", 1000).ok());
    audit_->Allow(Caller("a"), kCall, 0, [&](const absl::Status&) { is_last.Notify(); });
    is_last.WaitForNotification();
  }
  EXPECT_THAT(Done(), SizeIs(3 * (ChangeAudit::kMostOfCaller - 1)));
}

TEST_F(ChangeAuditTest, ACallerWhoHasMadeTooManyIsRefusedWithoutAWait) {
  // Those of a later time are not forgiven.
  const absl::Time later = SteadyNow() + absl::Hours(1);
  for (int i = 0; i < ChangeBounds::kMostChanges; ++i) ASSERT_TRUE(log_->AllowChange(Caller("a"), kCall, later).ok());
  Hold();
  const absl::Status refused = Change(Caller("a"), "");
  EXPECT_THAT(std::string(refused.message()), EndsWith("(admin of tenant a) has made 500 changes, and in the long run "
                                                       "one in 1s may; retry after that"));
  EXPECT_TRUE(Change(Caller("b"), "another one's").ok());
  GoOn();
}

TEST_F(ChangeAuditTest, AChangeWhoseCallersTokenEndsWhileItWaitsIsNotMade) {
  Hold();
  Access lapsed = Caller("team", 'd');
  lapsed.spiffe = "spiffe://example.org/d";
  lapsed.expires = absl::Now() - absl::Seconds(1);
  EXPECT_TRUE(Change(Caller("team", 'b'), "revoked").ok());
  EXPECT_TRUE(Change(Caller("team", 'c'), "good").ok());
  EXPECT_TRUE(Change(lapsed, "lapsed").ok());
  v1::TokenRecord revoked = Token('b');
  revoked.mutable_about()->set_revoked_unix_ms(1000);
  tenants_.tokens().Put(revoked);
  GoOn();
  EXPECT_THAT(Done(), ElementsAre("good"));
  EXPECT_THAT(refused_, ElementsAre("token 012345678abcdefb was revoked at 1970-01-01T00:00:01Z",
                                    testing::HasSubstr("the certificate of spiffe://example.org/d expired at")));
  EXPECT_EQ(VerifyChain(directory_, kChanges)->lines, 2u) << "those of the good one, and of the one that holds it up";
}

TEST_F(ChangeAuditTest, AFailureHasItsLineBeforeItIsTold) {
  uint64_t lines = 0;
  audit_->TellFailed(Caller("team"), kCall, absl::InternalError("no"), [&] {
    const absl::StatusOr<ChainVerdict> verdict = VerifyChain(directory_, kChanges);
    lines = verdict.ok() ? verdict->lines : 0;
  });
  audit_.reset();
  EXPECT_EQ(lines, 1u);
}

}  // namespace
}  // namespace farandole
