#include "server/audit/change_audit.h"

#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

std::string FreshDirectory() {
  std::string directory = absl::StrCat(testing::TempDir(), "/audit-XXXXXX");
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  return directory;
}

class ChangeAuditTest : public testing::Test {
 protected:
  // A change of this tenant, told by its number when its line is there.
  void Change(const std::string& tenant, int number) {
    audit_->Allow(Access{tenant, v1::ADMIN, "0123456789abcdef"}, {"AdminService.AbortJob", "", "job"},
                  [this, tenant, number](const absl::Status& allowed) {
                    EXPECT_TRUE(allowed.ok()) << allowed;
                    const absl::MutexLock lock(&mutex_);
                    done_.push_back(absl::StrCat(tenant, number));
                  });
  }

  const std::string directory_ = FreshDirectory();
  const std::unique_ptr<AuditLog> log_ = AuditLog::Open(directory_).value();
  std::unique_ptr<ChangeAudit> audit_ = std::make_unique<ChangeAudit>(log_.get());
  absl::Mutex mutex_;
  std::vector<std::string> done_;
};

TEST_F(ChangeAuditTest, TenantsTakeTurnsAndNobodyWhoAsksWaits) {
  absl::Notification holds, goes_on;
  audit_->Allow(Access{"other", v1::ADMIN, "0123456789abcdef"}, {"AdminService.AbortJob", "", "job"},
                [&](const absl::Status&) {
                  holds.Notify();
                  goes_on.WaitForNotification();
                });
  holds.WaitForNotification();
  for (int i = 0; i < 4; ++i) Change("greedy", i);
  Change("quiet", 0);
  {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(done_.empty());
  }
  goes_on.Notify();
  // All are written before the end.
  audit_.reset();
  EXPECT_THAT(done_, testing::ElementsAre("quiet0", "greedy0", "greedy1", "greedy2", "greedy3"));
  const absl::StatusOr<ChainVerdict> verdict = VerifyChain(directory_, kChanges);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->lines, 6u);
}

TEST_F(ChangeAuditTest, AFailureHasItsLineBeforeItIsTold) {
  const Access caller{"team", v1::ADMIN, "0123456789abcdef"};
  uint64_t lines = 0;
  audit_->TellFailed(caller, {"AdminService.AbortJob", "", "job"}, absl::InternalError("no"), [&] {
    const absl::StatusOr<ChainVerdict> verdict = VerifyChain(directory_, kChanges);
    lines = verdict.ok() ? verdict->lines : 0;
  });
  audit_.reset();
  EXPECT_EQ(lines, 1u);
}

}  // namespace
}  // namespace farandole
