#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/tenant_registrar.h"
#include "server/admin/token_registrar.h"
#include "server/registry/tenants.h"
#include "server/store/memory_store.h"
#include "server/store/store_wait.h"

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
  registrar->Create({"default", v1::ROOT, "0000000000000001"}, request,
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

TEST(AnswerLedgerTest, NoTwoCallsBeginAtTheSameTimeAlsoOverARestart) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  int64_t last = 0;
  for (int life = 0; life < 2; ++life) {
    const auto ledger = AnswerLedger::Load(store.get()).value();
    for (int i = 0; i < 100; ++i) {
      const AdminCall call = CallWithKey(absl::StrCat(life, "/", i));
      EXPECT_EQ(ledger->BeganUnixMs(call), 0);
      ASSERT_TRUE(ledger->Begin(call).value());
      EXPECT_GT(ledger->BeganUnixMs(call), last);
      last = ledger->BeganUnixMs(call);
      ASSERT_TRUE(FinishNow(ledger.get(), call).ok());
    }
  }
  const auto ledger = AnswerLedger::Load(store.get()).value();
  EXPECT_EQ(ledger->BeganUnixMs(CallWithKey("1/99")), last);
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

TEST(AnswerLedgerTest, AnswersAreForgottenAfterATimeAFewAtOnceAndForGood) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const auto ledger = AnswerLedger::Load(store.get()).value();
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(ledger->Begin(CallWithKey(key)).value());
    ASSERT_TRUE(FinishNow(ledger.get(), CallWithKey(key)).ok());
  }
  ASSERT_TRUE(ledger->Begin(CallWithKey("under way")).value());
  EXPECT_EQ(ledger->ForgetBefore(absl::Now() - absl::Hours(1), 10), 0u);
  EXPECT_FALSE(ledger->Begin(CallWithKey("a")).value());
  const absl::Time later = absl::Now() + absl::Hours(1);
  EXPECT_EQ(ledger->ForgetBefore(later, 2), 2u);
  EXPECT_EQ(ledger->ForgetBefore(later, 2), 1u);
  EXPECT_EQ(ledger->ForgetBefore(later, 2), 0u) << "one that is being carried out stays";
  EXPECT_TRUE(ScanAndWait(store.get(), "key/")->empty());
  EXPECT_TRUE(ledger->Begin(CallWithKey("a")).value());
  EXPECT_EQ(ledger->Begin(CallWithKey("under way")).status().code(), absl::StatusCode::kUnavailable);
}

TEST(AnswerLedgerTest, LongAnswersOfATenantHaveABoundInBytes) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const std::string response(16 << 10, 'r');
  {
    const auto ledger = AnswerLedger::Load(store.get()).value();
    for (int i = 0; i < 300; ++i) {
      const AdminCall call = CallWithKey(absl::StrCat("k", 1000 + i));
      ASSERT_TRUE(ledger->Begin(call).value());
      std::promise<absl::Status> done;
      ledger->Finish(
          call, StoreBatch(), [&](absl::Status status) { done.set_value(std::move(status)); }, response);
      ASSERT_TRUE(done.get_future().get().ok());
    }
    EXPECT_EQ(ledger->ResponseTo(CallWithKey("k1299")), response);
    EXPECT_EQ(ledger->ResponseTo(CallWithKey("k1000")), "") << "the oldest are forgotten";
  }
  size_t bytes = 0;
  const std::vector<StoreRow> rows = ScanAndWait(store.get(), "key/").value();
  for (const StoreRow& row : rows) bytes += row.value.size();
  EXPECT_LT(bytes, kMaxAnswerBytesKept + (64 << 10));
  EXPECT_GT(bytes, kMaxAnswerBytesKept / 2);
  const auto ledger = AnswerLedger::Load(store.get()).value();
  ASSERT_TRUE(ledger->Begin(CallWithKey("one more")).value());
  ASSERT_TRUE(FinishNow(ledger.get(), CallWithKey("one more")).ok());
  EXPECT_EQ(ledger->ResponseTo(CallWithKey("k1299")), response);
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
    const TokenMint mint("key");
    TenantRegistrar registrar(ledger.get(), &tenants, &mint);
    ASSERT_TRUE(registrar.EnsureDefaultTenant().ok());
    token = CreateNow(&registrar, request)->token();
    EXPECT_EQ(CreateNow(&registrar, request)->token(), token);
  }
  Tenants tenants;
  ASSERT_TRUE(TenantRegistrar::Load(store.get(), &tenants).ok());
  ASSERT_TRUE(TokenRegistrar::Load(store.get(), &tenants).ok());
  EXPECT_EQ(tenants.Authenticate(token)->tenant, "team");
  EXPECT_EQ(tenants.QuotaOf("team").max_jobs, 3u);
  EXPECT_EQ(tenants.QuotaOf("team").max_workers, kDefaultMaxWorkers);

  const auto ledger = AnswerLedger::Load(store.get()).value();
  const TokenMint mint("another key");
  TenantRegistrar rotated(ledger.get(), &tenants, &mint);
  const absl::Status status = CreateNow(&rotated, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("is not kept"));
}

class TokenRegistrarTest : public ::testing::Test {
 protected:
  TokenRegistrarTest() {
    EXPECT_TRUE(registrar_.EnsureStartToken("start token").ok());
    v1::TenantRecord tenant;
    for (const char* name : {"default", "team"}) {
      tenant.set_name(name);
      EXPECT_TRUE(tenants_.Put(tenant).ok());
    }
  }

  Access Root() { return *tenants_.Authenticate("start token"); }
  absl::StatusOr<v1::CreateTokenResponse> Create(const Access& caller, v1::Role role, const std::string& key,
                                                 const std::string& tenant = "team", uint64_t lifetime = 0) {
    v1::CreateTokenRequest request;
    request.set_tenant(tenant);
    request.set_role(role);
    request.set_lifetime_seconds(lifetime);
    request.set_idempotency_key(key);
    std::promise<absl::StatusOr<v1::CreateTokenResponse>> done;
    registrar_.Create(caller, request, [&](auto created) { done.set_value(std::move(created)); });
    return done.get_future().get();
  }
  absl::StatusOr<v1::RotateTokenResponse> Rotate(const Access& caller, const std::string& id, const std::string& key,
                                                 uint64_t overlap = 0) {
    v1::RotateTokenRequest request;
    request.set_id(id);
    request.set_overlap_seconds(overlap);
    request.set_idempotency_key(key);
    std::promise<absl::StatusOr<v1::RotateTokenResponse>> done;
    registrar_.Rotate(caller, request, [&](auto rotated) { done.set_value(std::move(rotated)); });
    return done.get_future().get();
  }
  absl::StatusOr<v1::RevokeTokenResponse> Revoke(const Access& caller, const std::string& id, const std::string& key,
                                                 bool and_made_with_it = false) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    request.set_and_made_with_it(and_made_with_it);
    request.set_idempotency_key(key);
    std::promise<absl::StatusOr<v1::RevokeTokenResponse>> done;
    registrar_.Revoke(caller, request, [&](auto revoked) { done.set_value(std::move(revoked)); });
    return done.get_future().get();
  }

  const std::unique_ptr<Store> store_ = MakeMemoryStore();
  const std::unique_ptr<AnswerLedger> ledger_ = AnswerLedger::Load(store_.get()).value();
  Tenants tenants_;
  const TokenMint mint_{"key"};
  std::string written_;
  TokenRegistrar registrar_{ledger_.get(), &tenants_, &mint_, [this](const std::string& token) {
                              written_ = token;
                              return absl::OkStatus();
                            }};
};

TEST_F(TokenRegistrarTest, ARepeatedCallGivesTheSameTokenAndTheStoreHasOnlyHashes) {
  const auto made = Create(Root(), v1::LAUNCHER, "k");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Create(Root(), v1::LAUNCHER, "k")->token(), made->token());
  EXPECT_NE(Create(Root(), v1::LAUNCHER, "k2")->token(), made->token());
  EXPECT_EQ(tenants_.Authenticate(made->token())->role, v1::LAUNCHER);
  const std::string secret = made->token().substr(made->token().size() - 43);
  const std::vector<StoreRow> rows = ScanAndWait(store_.get(), "").value();
  for (const StoreRow& row : rows) EXPECT_THAT(row.value, ::testing::Not(HasSubstr(secret))) << row.key;
}

TEST_F(TokenRegistrarTest, ARevokedTokenDoesNotComeBackByTheSameCallAfterItsAnswerIsForgotten) {
  const auto forget = [this] { EXPECT_GT(ledger_->ForgetBefore(absl::Now() + absl::Hours(1), 100), 0u); };
  const auto leaked = Create(Root(), v1::LAUNCHER, "k");
  ASSERT_TRUE(leaked.ok()) << leaked.status();
  ASSERT_TRUE(Revoke(Root(), leaked->about().id(), "r").ok());
  forget();
  const auto again = Create(Root(), v1::LAUNCHER, "k");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(again->about().id(), leaked->about().id());
  EXPECT_TRUE(tenants_.Authenticate(again->token()).ok());
  EXPECT_FALSE(tenants_.Authenticate(leaked->token()).ok());
  EXPECT_NE(tenants_.tokens().Find(leaked->about().id())->about().revoked_unix_ms(), 0);

  const std::string id = again->about().id();
  const std::string first = Rotate(Root(), id, "r1")->token();
  ASSERT_TRUE(Rotate(Root(), id, "r2").ok());
  forget();
  EXPECT_NE(Rotate(Root(), id, "r1")->token(), first);
  EXPECT_FALSE(tenants_.Authenticate(first).ok());
}

TEST_F(TokenRegistrarTest, NobodyGivesMoreThanHeHas) {
  const Access admin = *tenants_.Authenticate(Create(Root(), v1::ADMIN, "a")->token());
  EXPECT_TRUE(Create(admin, v1::ADMIN, "k1").ok());
  EXPECT_EQ(Create(admin, v1::ROOT, "k2").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Create(admin, v1::VIEWER, "k3", "default").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Create(Root(), v1::AUDITOR, "k4").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Create(Root(), v1::AUDITOR, "k5", "default").ok());
  EXPECT_EQ(Create(Root(), v1::VIEWER, "k6", "nobody").status().code(), absl::StatusCode::kNotFound);
  const auto too_long = Create(Root(), v1::VIEWER, "k7", "team", 91 * 24 * 3600).status();
  EXPECT_THAT(too_long.message(), HasSubstr("7862400 s are more than 7776000 (90 days)"));
  EXPECT_EQ(Revoke(admin, Root().token_id, "k8").status().code(), absl::StatusCode::kNotFound);
  const Access own = {"default", v1::ADMIN, "0000000000000002"};
  EXPECT_EQ(Rotate(own, Root().token_id, "k9").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(TokenRegistrarTest, ARotatedTokenHasTwoTextsForAWhile) {
  const auto made = Create(Root(), v1::LAUNCHER, "k");
  const std::string id = made->about().id();
  const auto rotated = Rotate(Root(), id, "r", 3600);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(rotated->about().id(), id);
  EXPECT_TRUE(tenants_.Authenticate(made->token()).ok());
  EXPECT_TRUE(tenants_.Authenticate(rotated->token()).ok());
  EXPECT_EQ(Rotate(Root(), id, "r", 3600)->token(), rotated->token());
  const auto again = Rotate(Root(), id, "r2");
  EXPECT_FALSE(tenants_.Authenticate(made->token()).ok()) << "at most two are good";
  EXPECT_FALSE(tenants_.Authenticate(rotated->token()).ok());
  EXPECT_TRUE(tenants_.Authenticate(again->token()).ok());
  EXPECT_EQ(Rotate(Root(), id, "r", 3600).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Revoke(Root(), id, "e").ok());
  EXPECT_FALSE(tenants_.Authenticate(again->token()).ok());
  EXPECT_EQ(Rotate(Root(), id, "r3").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TokenRegistrarTest, ATokenThatWasRotatedByThousandsIsRevokedAllTheSame) {
  const auto made = Create(Root(), v1::LAUNCHER, "k");
  const auto helper = Create(Root(), v1::ADMIN, "h");
  v1::TokenRecord record = *tenants_.tokens().Find(made->about().id());
  for (int i = 0; i < 40'000; ++i) {
    v1::TokenRecord::Rotation* const rotation = record.add_rotations();
    // Most of them are forgotten by now.
    rotation->set_token_id(i == 17 ? helper->about().id() : absl::StrCat(1'000'000'000'000'000 + i));
    rotation->set_first_unix_ms(1'700'000'000'000);
    rotation->set_last_unix_ms(1'700'000'000'000);
  }
  ASSERT_GT(record.ByteSizeLong(), kMaxBatchBytes);
  tenants_.tokens().Put(record);
  const auto rotated = Rotate(Root(), made->about().id(), "r");
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  tenants_.tokens().Put(record);
  ASSERT_TRUE(Revoke(Root(), made->about().id(), "e").ok());
  EXPECT_FALSE(tenants_.Authenticate(rotated->token()).ok());
  const v1::TokenRecord kept = *tenants_.tokens().Find(made->about().id());
  ASSERT_EQ(kept.rotations_size(), 1);
  EXPECT_EQ(kept.rotations(0).token_id(), helper->about().id());
}

TEST_F(TokenRegistrarTest, ALeakedStartTokenIsReplacedAndAllThatWasMadeWithItEnds) {
  const Access root = Root();
  const std::string admin = Create(root, v1::ADMIN, "a")->token();
  const std::string viewer = Create(*tenants_.Authenticate(admin), v1::VIEWER, "v")->token();
  EXPECT_EQ(Revoke(root, root.token_id, "r", /*and_made_with_it=*/true)->ended(), 3u);
  for (const std::string& token : {std::string("start token"), admin, viewer})
    EXPECT_FALSE(tenants_.Authenticate(token).ok());
  EXPECT_EQ(tenants_.Authenticate(written_)->role, v1::ROOT);
  const absl::Status status = registrar_.EnsureStartToken("start token");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "a backup of the file does not bring it back";
}

TEST_F(TokenRegistrarTest, ALeakedTokenDoesNotOutliveItsRevocationByRotatingOthers) {
  const Access root = Root();
  const auto owners = Create(root, v1::ADMIN, "owner's"), leaked = Create(root, v1::ADMIN, "leaked");
  const auto other = Create(root, v1::ADMIN, "other");
  const Access attacker = *tenants_.Authenticate(leaked->token());
  const auto stolen = Rotate(attacker, owners->about().id(), "r1", 7 * 24 * 3600);
  ASSERT_TRUE(stolen.ok()) << stolen.status();
  EXPECT_TRUE(tenants_.Authenticate(owners->token()).ok()) << "its owner notices nothing";
  // The lineage outlives a rotation by itself, by a token that it has rotated, and by an innocent one.
  const Access as_owner = *tenants_.Authenticate(stolen->token());
  const auto second = Rotate(as_owner, other->about().id(), "r2", 3600);
  const auto own = Rotate(as_owner, owners->about().id(), "r3", 3600);
  ASSERT_TRUE(Rotate(*tenants_.Authenticate(second->token()), owners->about().id(), "r4", 3600).ok());
  const auto innocent = Rotate(root, owners->about().id(), "r5", 3600);
  const auto made = Create(*tenants_.Authenticate(innocent->token()), v1::VIEWER, "v");
  const auto bystander = Create(root, v1::ADMIN, "bystander");
  EXPECT_EQ(Revoke(root, leaked->about().id(), "e", /*and_made_with_it=*/true)->ended(), 4u);
  for (const std::string& text : {leaked->token(), owners->token(), stolen->token(), second->token(), own->token(),
                                  innocent->token(), made->token()}) {
    EXPECT_FALSE(tenants_.Authenticate(text).ok());
  }
  EXPECT_EQ(Rotate(root, owners->about().id(), "r6").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(tenants_.Authenticate(bystander->token()).ok());
  // As the rows say it to the next life.
  Tenants next;
  ASSERT_TRUE(TokenRegistrar::Load(store_.get(), &next).ok());
  EXPECT_THAT(
      next.Authenticate(innocent->token()).status().message(),
      HasSubstr(absl::StrCat(leaked->about().id(), " was revoked with those that were made or rotated with it")));
  EXPECT_TRUE(next.Authenticate(bystander->token()).ok());
}

TEST_F(TokenRegistrarTest, AStartTokenThatALeakedOneHasRotatedIsReplaced) {
  const Access root = Root();
  const auto leaked = Create(root, v1::ROOT, "leaked", "default");
  const auto stolen = Rotate(*tenants_.Authenticate(leaked->token()), root.token_id, "r", 3600);
  ASSERT_TRUE(stolen.ok()) << stolen.status();
  EXPECT_EQ(written_, stolen->token());
  // A start that finds the file's text in no row: that text was rotated in, and the row was not written.
  ASSERT_TRUE(registrar_.EnsureStartToken(absl::StrCat(stolen->token().substr(0, 23), std::string(43, 'x'))).ok());
  EXPECT_EQ(Revoke(root, leaked->about().id(), "e", /*and_made_with_it=*/true)->ended(), 2u);
  EXPECT_FALSE(tenants_.Authenticate(stolen->token()).ok());
  EXPECT_FALSE(tenants_.Authenticate("start token").ok());
  EXPECT_NE(written_, stolen->token());
  EXPECT_EQ(tenants_.Authenticate(written_)->role, v1::ROOT);
  EXPECT_EQ(registrar_.EnsureStartToken(stolen->token()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(registrar_.EnsureStartToken(written_).ok());
}

TEST_F(TokenRegistrarTest, ATokenThatRotatesItselfEndsByItsId) {
  const auto leaked = Create(Root(), v1::ADMIN, "leaked");
  const std::string id = leaked->about().id();
  const auto own = Rotate(*tenants_.Authenticate(leaked->token()), id, "r", 3600);
  ASSERT_TRUE(Revoke(Root(), id, "e").ok());
  EXPECT_FALSE(tenants_.Authenticate(leaked->token()).ok());
  EXPECT_FALSE(tenants_.Authenticate(own->token()).ok());
}

TEST_F(TokenRegistrarTest, ATenantHasABoundOfTokensAndEndedOnesMakeRoom) {
  const Access root = Root();
  std::string first;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    const auto made = Create(root, v1::VIEWER, absl::StrCat("k", i));
    ASSERT_TRUE(made.ok()) << made.status();
    if (i == 0) first = made->about().id();
  }
  EXPECT_THAT(Create(root, v1::VIEWER, "more").status().message(), HasSubstr("has 256 tokens, at most 256 may be"));
  ASSERT_TRUE(Revoke(root, first, "r").ok());
  EXPECT_TRUE(Create(root, v1::VIEWER, "more").ok());
  EXPECT_FALSE(tenants_.tokens().Find(first).has_value());
}

TEST_F(TokenRegistrarTest, TokensOfTheDefaultTenantLeaveRoomForThoseOfTheCluster) {
  const Access root = Root();
  size_t made = 0;
  while (made <= kMaxTokens && Create(root, v1::VIEWER, absl::StrCat("k", made), kDefaultTenant).ok()) ++made;
  EXPECT_LE(made, kMaxTokens);
  EXPECT_FALSE(Create(root, v1::ADMIN, "more", kDefaultTenant).ok());
  const auto auditor = Create(root, v1::AUDITOR, "the cluster's", kDefaultTenant);
  EXPECT_TRUE(auditor.ok()) << auditor.status();
}

TEST_F(TokenRegistrarTest, TokensThatHaveRotatedEachOtherMakeRoomTooAndDoNotComeBack) {
  const Access root = Root();
  std::vector<std::string> texts, ids;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    const auto made = Create(root, v1::ADMIN, absl::StrCat("k", i));
    texts.push_back(made->token());
    ids.push_back(made->about().id());
  }
  // Twice around, so that the first holder reaches all.
  for (size_t i = 0; i < 2 * kMaxTokens; ++i) {
    const Access caller = *tenants_.Authenticate(texts[i % kMaxTokens]);
    const auto rotated = Rotate(caller, ids[(i + 1) % kMaxTokens], absl::StrCat("r", i), 3600);
    ASSERT_TRUE(rotated.ok()) << rotated.status();
    texts[(i + 1) % kMaxTokens] = rotated->token();
  }
  EXPECT_EQ(Revoke(root, ids[7], "e", /*and_made_with_it=*/true)->ended(), kMaxTokens);
  for (size_t i = 0; i < kMaxTokens / 2; ++i) {
    const absl::Status created = Create(root, v1::VIEWER, absl::StrCat("n", i)).status();
    ASSERT_TRUE(created.ok()) << i << ": " << created;
  }
  // As the rows say it to the next life.
  Tenants next;
  ASSERT_TRUE(TokenRegistrar::Load(store_.get(), &next).ok());
  EXPECT_LE(next.tokens().List("team", absl::Now()).size(), kMaxTokens + 3) << "some more for a while";
  for (size_t i = 0; i < kMaxTokens; ++i) {
    EXPECT_FALSE(tenants_.Authenticate(texts[i]).ok()) << i;
    EXPECT_FALSE(next.Authenticate(texts[i]).ok()) << i;
  }
}

TEST_F(TokenRegistrarTest, ATokenIsRotatedWithSoManyOthersOnly) {
  const std::string victim = Create(Root(), v1::VIEWER, "victim")->about().id();
  std::vector<Access> rotators;
  for (int i = 0; i < 33; ++i)
    rotators.push_back(*tenants_.Authenticate(Create(Root(), v1::ADMIN, absl::StrCat("k", i))->token()));
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(Rotate(rotators[i], victim, absl::StrCat("r", i), 3600).ok()) << i;
  EXPECT_THAT(Rotate(rotators[32], victim, "one more").status().message(),
              HasSubstr("rotated with 32 other tokens, at most 32 may be: create a new token, and revoke this one"));
  EXPECT_TRUE(Rotate(rotators[31], victim, "again").ok());
}

TEST_F(TokenRegistrarTest, NoRoomIsMadeByATokenOfAnotherTenantWhoseTokensAreBeingChanged) {
  const auto rotator = Create(Root(), v1::ROOT, "rotator", "default");
  const std::string victim = Create(Root(), v1::VIEWER, "victim")->about().id();
  ASSERT_TRUE(Rotate(*tenants_.Authenticate(rotator->token()), victim, "r", 3600).ok());
  for (size_t i = 2; i < kMaxTokens; ++i) ASSERT_TRUE(Create(Root(), v1::VIEWER, absl::StrCat("k", i), "default").ok());
  ASSERT_EQ(Revoke(Root(), rotator->about().id(), "e", /*and_made_with_it=*/true)->ended(), 2u);
  std::promise<void> go_on, changed;
  ledger_->Commit({}, [&](const absl::Status&) { go_on.get_future().wait(); });
  v1::CreateTokenRequest request;
  request.set_role(v1::VIEWER);
  request.set_tenant("team");
  request.set_idempotency_key("change");
  registrar_.Create(Root(), request, [&](const auto&) { changed.set_value(); });
  EXPECT_THAT(Create(Root(), v1::VIEWER, "n", "default").status().message(), HasSubstr("tokens of tenant team are"));
  go_on.set_value();
  changed.get_future().wait();
  EXPECT_TRUE(Create(Root(), v1::VIEWER, "n", "default").ok());
}

}  // namespace
}  // namespace farandole
