#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/tenant_registrar.h"
#include "server/registry/tenants.h"
#include "server/store/memory_store.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

absl::Status FinishNow(AnswerLedger* ledger, const AdminCall& call) {
  std::promise<absl::Status> done;
  ledger->Finish(call, StoreBatch(), [&](absl::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

absl::StatusOr<v1::CreateTenantResponse> CreateNow(TenantRegistrar* registrar, const v1::CreateTenantRequest& request) {
  std::promise<absl::StatusOr<v1::CreateTenantResponse>> done;
  registrar->Create({"default", true}, request,
                    [&](absl::StatusOr<v1::CreateTenantResponse> response) { done.set_value(std::move(response)); });
  return done.get_future().get();
}

AdminCall CallWithKey(const std::string& key) { return {"default", key, "AbortJob", "digest"}; }

TEST(AnswerLedgerTest, ACallIsCarriedOutOnceAndRememberedByTheNextLedger) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  {
    const auto ledger = AnswerLedger::Load(store.get()).value();
    EXPECT_TRUE(ledger->Begin(CallWithKey("k/1")).value());
    EXPECT_EQ(ledger->Begin(CallWithKey("k/1")).status().code(), absl::StatusCode::kUnavailable);
    ASSERT_TRUE(FinishNow(ledger.get(), CallWithKey("k/1")).ok());
    EXPECT_FALSE(ledger->Begin(CallWithKey("k/1")).value());
  }
  const auto ledger = AnswerLedger::Load(store.get()).value();
  EXPECT_FALSE(ledger->Begin(CallWithKey("k/1")).value());
}

TEST(AnswerLedgerTest, AnAbandonedCallMayBeTriedAgain) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const auto ledger = AnswerLedger::Load(store.get()).value();
  ASSERT_TRUE(ledger->Begin(CallWithKey("k")).value());
  ledger->Abandon(CallWithKey("k"));
  EXPECT_TRUE(ledger->Begin(CallWithKey("k")).value());
}

TEST(AnswerLedgerTest, AKeyIsBoundedAndGoodForOneRequest) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const auto ledger = AnswerLedger::Load(store.get()).value();
  EXPECT_EQ(ledger->Begin(CallWithKey("")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger->Begin(CallWithKey(std::string(65, 'k'))).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(ledger->Begin(CallWithKey("k")).value());
  AdminCall other = CallWithKey("k");
  other.request_sha256 = "another";
  EXPECT_EQ(ledger->Begin(other).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AnswerLedgerTest, TheOldestAnswerIsForgottenForANewOne) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const auto ledger = AnswerLedger::Load(store.get()).value();
  for (size_t i = 0; i <= kMaxAnswersKept; ++i) {
    const AdminCall call = CallWithKey(absl::StrCat("k", 100'000 + i));
    ASSERT_TRUE(ledger->Begin(call).value());
    ledger->Finish(call, StoreBatch(), [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  }
  ASSERT_TRUE(ledger->Begin(CallWithKey("last")).value());
  ASSERT_TRUE(FinishNow(ledger.get(), CallWithKey("last")).ok());
  int forgotten = 0;
  for (size_t i = 0; i < 100; ++i) {
    const AdminCall call = CallWithKey(absl::StrCat("k", 100'000 + i));
    if (!ledger->Begin(call).value()) continue;
    ++forgotten;
    ledger->Abandon(call);
  }
  EXPECT_EQ(forgotten, 2);
}

TEST(AnswerLedgerTest, ItTakesItsRowsBackWhenSomebodyElseHadThem) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const auto ledger = AnswerLedger::Load(store.get()).value();
  const auto other = AnswerLedger::Load(store.get()).value();
  ASSERT_TRUE(ledger->Begin(CallWithKey("k")).value());
  EXPECT_EQ(FinishNow(ledger.get(), CallWithKey("k")).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(ledger->Begin(CallWithKey("k")).value());
  EXPECT_TRUE(FinishNow(ledger.get(), CallWithKey("k")).ok());
}

TEST(TenantRegistrarTest, ATenantAndItsTokenOutliveTheOffice) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  v1::CreateTenantRequest request;
  request.set_tenant("team");
  request.set_max_jobs(3);
  request.set_idempotency_key("k");
  std::string token;
  {
    const auto ledger = AnswerLedger::Load(store.get()).value();
    Tenants tenants;
    TenantRegistrar registrar(ledger.get(), &tenants, "secret");
    ASSERT_TRUE(registrar.EnsureDefaultTenant().ok());
    EXPECT_TRUE(tenants.Authenticate("secret")->admin);
    token = CreateNow(&registrar, request)->token();
    EXPECT_EQ(CreateNow(&registrar, request)->token(), token);
  }
  Tenants tenants;
  ASSERT_TRUE(TenantRegistrar::Load(store.get(), &tenants).ok());
  EXPECT_EQ(tenants.Authenticate(token)->tenant, "team");
  EXPECT_EQ(tenants.QuotaOf("team").max_jobs, 3u);
  EXPECT_EQ(tenants.QuotaOf("team").max_workers, kDefaultMaxWorkers);

  const auto ledger = AnswerLedger::Load(store.get()).value();
  TenantRegistrar rotated(ledger.get(), &tenants, "another secret");
  ASSERT_TRUE(rotated.EnsureDefaultTenant().ok());
  EXPECT_FALSE(tenants.Authenticate("secret").ok());
  const absl::Status status = CreateNow(&rotated, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("under another start token"));
}

}  // namespace
}  // namespace farandole
