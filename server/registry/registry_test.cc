#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/registry/rights.h"
#include "server/registry/tenants.h"
#include "server/registry/token_table.h"
#include "server/registry/token_text.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

v1::TenantRecord Tenant(const std::string& name) {
  v1::TenantRecord record;
  record.set_name(name);
  return record;
}

v1::TokenRecord Token(const std::string& tenant, v1::Role role, const std::string& text) {
  v1::TokenRecord record;
  record.mutable_about()->set_id(TokenIdOf(text));
  record.mutable_about()->set_tenant(tenant);
  record.mutable_about()->set_role(role);
  record.add_secrets()->set_sha256(Sha256(text));
  return record;
}

TEST(TenantsTest, ATokenBelongsToTheTenantThatHasItsHash) {
  Tenants tenants;
  tenants.tokens().Put(Token("a", v1::VIEWER, "token-a"));
  tenants.tokens().Put(Token("b", v1::ROOT, "token-b"));
  EXPECT_EQ(tenants.Authenticate("token-a")->tenant, "a");
  EXPECT_EQ(tenants.Authenticate("token-a")->role, v1::VIEWER);
  EXPECT_EQ(tenants.Authenticate("token-b")->role, v1::ROOT);
  for (const char* wrong : {"", "token-", "token-aa"}) {
    EXPECT_EQ(tenants.Authenticate(wrong).status().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(TokenTextTest, ATextTellsItsId) {
  const std::string text = TokenText("0123456789abcdef", std::string(32, 's'));
  EXPECT_EQ(TokenIdOf(text), "0123456789abcdef");
  for (const std::string& other :
       {std::string("token"), std::string("fdl_s_0123"), text.substr(0, 22), std::string("fdl_s_0123456789ABCDEF_x")}) {
    EXPECT_TRUE(IsTokenId(TokenIdOf(other))) << other;
    EXPECT_NE(TokenIdOf(other), "0123456789abcdef") << other;
  }
}

TEST(TokenTableTest, ATokenEndsByTimeByRevocationAndByItsRotation) {
  TokenTable table;
  const absl::Time now = absl::FromUnixSeconds(1000);
  v1::TokenRecord record = Token("a", v1::LAUNCHER, "token");
  const std::string id = record.about().id();
  record.mutable_about()->set_expires_unix_ms(2'000'000);
  record.mutable_secrets(0)->set_ends_unix_ms(1'500'000);
  record.add_secrets()->set_sha256(Sha256("another"));
  table.Put(record);
  EXPECT_TRUE(table.Authenticate("token", now).ok());
  EXPECT_THAT(table.Authenticate("token", absl::FromUnixSeconds(1500)).status().message(),
              HasSubstr("has another secret"));
  EXPECT_EQ(table.List("a", now).front().overlap_ends_unix_ms(), 1'500'000);
  // The id of the other text is not the token's: only texts that carry it have more than one.
  EXPECT_FALSE(table.Authenticate("another", now).ok());
  EXPECT_THAT(table.Authenticate("token", absl::FromUnixSeconds(2000)).status().message(),
              HasSubstr("expired at 1970-01-01T00:33:20Z"));
  EXPECT_FALSE(table.CheckStanding(id, absl::FromUnixSeconds(2000), /*while_unexpired=*/true).ok());
  EXPECT_TRUE(table.CheckStanding(id, absl::FromUnixSeconds(2000), /*while_unexpired=*/false).ok());
  record.mutable_about()->set_revoked_unix_ms(900'000);
  table.Put(record);
  EXPECT_THAT(table.Authenticate("token", now).status().message(), HasSubstr("was revoked at 1970-01-01T00:15:00Z"));
  EXPECT_FALSE(table.CheckStanding(id, now, /*while_unexpired=*/false).ok());
}

TEST(TokenTableTest, ThoseThatWereMadeWithATokenEndWithItWhereItIsRevokedSo) {
  TokenTable table;
  const absl::Time now = absl::FromUnixSeconds(1000);
  v1::TokenRecord root = Token("default", v1::ROOT, "root");
  v1::TokenRecord old = Token("a", v1::ADMIN, "old"), fresh = Token("a", v1::ADMIN, "fresh");
  v1::TokenRecord child = Token("a", v1::VIEWER, "child"), other = Token("b", v1::ADMIN, "other");
  for (v1::TokenRecord* made : {&old, &fresh}) made->mutable_about()->set_made_with(root.about().id());
  child.mutable_about()->set_made_with(fresh.about().id());
  old.mutable_about()->set_created_unix_ms(100);
  fresh.mutable_about()->set_created_unix_ms(200);
  child.mutable_about()->set_created_unix_ms(300);
  for (const v1::TokenRecord& one : {root, old, fresh, child, other}) table.Put(one);
  EXPECT_EQ(table.EndingWith(root.about().id(), 0, now).size(), 3u);
  EXPECT_EQ(table.EndingWith(root.about().id(), 150, now).size(), 2u);
  const auto good = [&] {
    std::vector<std::string> texts;
    for (const char* text : {"root", "old", "fresh", "child", "other"}) {
      if (table.Authenticate(text, now).ok()) texts.push_back(text);
    }
    return texts;
  };
  root.mutable_about()->set_revoked_unix_ms(500);
  table.Put(root);
  EXPECT_THAT(good(), ::testing::ElementsAre("old", "fresh", "child", "other"));
  root.set_is_revoked_with_made(true);
  root.set_made_since_unix_ms(150);
  table.Put(root);
  EXPECT_THAT(good(), ::testing::ElementsAre("old", "other"));
  root.set_made_since_unix_ms(0);
  table.Put(root);
  EXPECT_THAT(good(), ::testing::ElementsAre("other"));
}

void AddRotation(const v1::TokenRecord& with, int64_t first, int64_t last, v1::TokenRecord* record) {
  v1::TokenRecord::Rotation* rotation = record->add_rotations();
  rotation->set_token_id(with.about().id());
  rotation->set_first_unix_ms(first);
  rotation->set_last_unix_ms(last);
}

TEST(TokenTableTest, ThoseThatWereRotatedWithATokenEndWithItInWhateverOrderTheyAreRead) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  v1::TokenRecord leaked = Token("a", v1::ADMIN, "leaked"), owner = Token("a", v1::ADMIN, "owner");
  v1::TokenRecord rotated = Token("a", v1::ADMIN, "rotated"), by_it = Token("a", v1::ADMIN, "by it");
  v1::TokenRecord before = Token("a", v1::VIEWER, "before"), made = Token("a", v1::VIEWER, "made");
  v1::TokenRecord again = Token("a", v1::VIEWER, "again");
  AddRotation(leaked, 300, 500, &rotated);
  AddRotation(owner, 100, 600, &rotated);
  AddRotation(rotated, 400, 400, &by_it);
  // They rotate each other in a circle.
  AddRotation(by_it, 450, 450, &rotated);
  for (v1::TokenRecord* one : {&before, &made}) one->mutable_about()->set_made_with(rotated.about().id());
  before.mutable_about()->set_created_unix_ms(299);
  made.mutable_about()->set_created_unix_ms(300);
  again.mutable_about()->set_made_with(by_it.about().id());
  again.mutable_about()->set_created_unix_ms(600);
  const auto good = [&](int64_t since, bool is_reversed) {
    leaked.mutable_about()->set_revoked_unix_ms(900);
    leaked.set_is_revoked_with_made(true);
    leaked.set_made_since_unix_ms(since);
    std::vector<v1::TokenRecord> records = {leaked, owner, rotated, by_it, before, made, again};
    if (is_reversed) std::reverse(records.begin(), records.end());
    TokenTable table;
    for (const v1::TokenRecord& one : records) table.Put(one);
    std::vector<std::string> texts;
    for (const char* text : {"leaked", "owner", "rotated", "by it", "before", "made", "again"}) {
      if (table.Authenticate(text, now).ok()) texts.push_back(text);
    }
    return texts;
  };
  TokenTable table;
  for (const v1::TokenRecord& one : {leaked, owner, rotated, by_it, before, made, again}) table.Put(one);
  EXPECT_EQ(table.EndingWith(leaked.about().id(), 0, now).size(), 4u);
  EXPECT_EQ(table.EndingWith(leaked.about().id(), 501, now).size(), 0u);
  EXPECT_EQ(table.EndingWith(owner.about().id(), 0, now).size(), 5u) << "he had it when `before` was made";
  for (const bool is_reversed : {false, true}) {
    EXPECT_THAT(good(0, is_reversed), ::testing::ElementsAre("owner", "before"));
    EXPECT_THAT(good(470, is_reversed), ::testing::ElementsAre("owner", "by it", "before", "made", "again"))
        << "it was rotated with the leaked one again at 500";
    EXPECT_THAT(good(501, is_reversed), ::testing::ElementsAre("owner", "rotated", "by it", "before", "made", "again"));
  }
  leaked.set_made_since_unix_ms(0);
  table.Put(leaked);
  EXPECT_THAT(table.CheckStanding(by_it.about().id(), now, /*while_unexpired=*/false).message(), HasSubstr("ended at"));
}

TEST(TokenTableTest, CountsAsGoodWhatItWouldNotListAsEnded) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  v1::TokenRecord good = Token("a", v1::ADMIN, "good"), later = Token("a", v1::ADMIN, "later");
  v1::TokenRecord expired = Token("a", v1::VIEWER, "expired"), revoked = Token("a", v1::ADMIN, "revoked");
  v1::TokenRecord made = Token("a", v1::VIEWER, "made"), other = Token("ab", v1::VIEWER, "other");
  later.mutable_about()->set_expires_unix_ms(1'000'001);
  expired.mutable_about()->set_expires_unix_ms(1'000'000);
  revoked.mutable_about()->set_revoked_unix_ms(500);
  made.mutable_about()->set_made_with(revoked.about().id());
  TokenTable table;
  for (const v1::TokenRecord& one : {good, later, expired, revoked, made, other}) table.Put(one);
  EXPECT_EQ(table.CountGood("a", now), 3u);
  revoked.set_is_revoked_with_made(true);
  table.Put(revoked);
  EXPECT_EQ(table.CountGood("a", now), 2u) << "what was made with it has ended by it";
  const std::vector<v1::Token> listed = table.List("a", now);
  EXPECT_EQ(std::count_if(listed.begin(), listed.end(), [](const v1::Token& one) { return one.ended().empty(); }), 2);
  // The one that has ended it may go when its own row says that it has ended.
  made.mutable_about()->set_revoked_unix_ms(600);
  table.Put(made);
  table.Erase(revoked.about().id());
  EXPECT_EQ(table.CountGood("a", now), 2u);
  EXPECT_EQ(table.List("a", now).size(), 4u);
  EXPECT_EQ(table.CountGood("ab", now), 1u);
  EXPECT_EQ(table.CountGood("", now), 0u) << "no tenant has no name";
}

TEST(TokenTableTest, CountsAsManyGoodOnesAsItListsWhateverHappenedToThem) {
  std::mt19937 random(1);
  const auto number = [&random](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int turn = 0; turn < 100; ++turn) {
    TokenTable table;
    std::vector<v1::TokenRecord> tokens;
    for (int i = 0; i < 12; ++i) tokens.push_back(Token(i % 4 == 0 ? "b" : "a", v1::ADMIN, absl::StrCat(i)));
    for (int step = 0; step < 40; ++step) {
      const int i = number(11);
      v1::TokenRecord& token = tokens[static_cast<size_t>(i)];
      const int what = number(5);
      if (what == 0) token.mutable_about()->set_expires_unix_ms(number(3) * 1000);
      if (what == 1) AddRotation(tokens[static_cast<size_t>(number(11))], number(5), 5 + number(5), &token);
      if (what == 2 && i > 0) token.mutable_about()->set_made_with(tokens[static_cast<size_t>(i - 1)].about().id());
      if (what == 3 && number(3) == 0) token.mutable_about()->set_revoked_unix_ms(1);
      if (what == 4 && number(3) == 0) {
        token.mutable_about()->set_revoked_unix_ms(1);
        token.set_is_revoked_with_made(true);
        token.set_made_since_unix_ms(number(10));
      }
      table.Put(token);
      // One by which others have ended stays.
      if (what == 5 && table.CheckStanding(token.about().id(), absl::UnixEpoch(), /*while_unexpired=*/false).ok())
        table.Erase(token.about().id());
      for (const char* tenant : {"a", "b", "c"}) {
        const absl::Time now = absl::FromUnixMillis(number(4) * 1000 - number(1));
        const std::vector<v1::Token> listed = table.List(tenant, now);
        EXPECT_EQ(table.CountOf(tenant), listed.size());
        const auto is_good = [](const v1::Token& one) { return one.ended().empty(); };
        ASSERT_EQ(static_cast<std::ptrdiff_t>(table.CountGood(tenant, now)),
                  std::count_if(listed.begin(), listed.end(), is_good))
            << turn;
      }
    }
  }
}

TEST(TokenTableTest, CountsATenantsTokensWithoutALookAtEach) {
  TokenTable table;
  for (size_t i = 0; i < kMaxTokens; ++i) table.Put(Token("a", v1::VIEWER, absl::StrCat(i)));
  const std::clock_t began = std::clock();
  size_t good = 0;
  for (int i = 0; i < 100'000; ++i) good += table.CountGood("a", absl::UnixEpoch()) + table.CountOf("a");
  EXPECT_EQ(good, 100'000 * 2 * kMaxTokens);
  // 0.6 s under ASan. A look at each took more than five minutes there, and three seconds where it was optimized.
  EXPECT_LT(std::clock() - began, 2 * CLOCKS_PER_SEC);
}

TEST(TokenTableTest, ATokenThatEndedAndThatNoOtherHangsOnGivesItsPlaceFirst) {
  TokenTable table;
  const absl::Time now = absl::FromUnixSeconds(100 * 24 * 3600);
  v1::TokenRecord good = Token("a", v1::ADMIN, "good"), maker = Token("a", v1::ADMIN, "maker");
  v1::TokenRecord made = Token("a", v1::VIEWER, "made"), expired = Token("a", v1::VIEWER, "expired");
  maker.mutable_about()->set_revoked_unix_ms(1);
  made.mutable_about()->set_made_with(maker.about().id());
  expired.mutable_about()->set_expires_unix_ms(absl::ToUnixMillis(now - absl::Hours(24 * 29)));
  for (const v1::TokenRecord& one : {good, maker, made, expired}) table.Put(one);
  EXPECT_EQ(table.CountOf("a"), 4u);
  EXPECT_EQ(table.RoomOf("a", now).forgotten, "");
  EXPECT_EQ(table.RoomOf("a", now + absl::Hours(48)).forgotten, expired.about().id());
  AddRotation(expired, 1, 1, &good);
  table.Put(good);
  EXPECT_EQ(table.RoomOf("a", now + absl::Hours(48)).forgotten, expired.about().id()) << "if there is no other";
  v1::TokenRecord another = Token("a", v1::VIEWER, "another");
  another.mutable_about()->set_revoked_unix_ms(5);
  another.mutable_about()->set_created_unix_ms(1LL << 50);
  table.Put(another);
  EXPECT_EQ(table.RoomOf("a", now + absl::Hours(48)).forgotten, another.about().id())
      << "a revocation of the other one would find what it has rotated";
  table.Erase(expired.about().id());
  EXPECT_EQ(table.List("a", now).size(), 4u);
}

TEST(TokenTableTest, AnExpiredTokenThatARunHangsOnIsNotForgotten) {
  const absl::Time now = absl::Now();
  v1::TokenRecord launcher = Token("a", v1::LAUNCHER, "launcher");
  launcher.mutable_about()->set_expires_unix_ms(absl::ToUnixMillis(now - absl::Hours(24 * 31)));
  Tenants tenants;
  ASSERT_TRUE(tenants.Put(Tenant("a")).ok());
  tenants.SetRunKey("key");
  tenants.tokens().Put(launcher);
  const std::string credential = tenants.CredentialOf({"a", "mnist"}, v1::Launch(), launcher.about().id());
  EXPECT_EQ(tenants.tokens().RoomOf("a", now).forgotten, launcher.about().id());
  const absl::StatusOr<Access> worker = tenants.Authenticate(credential);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(tenants.tokens().RoomOf("a", now).forgotten, "");
  EXPECT_EQ(tenants.tokens().List("a", now).front().last_used_unix_ms(), 0) << "the token itself is not used";
  // Also in the next life.
  const std::vector<TokenTable::Use> uses = tenants.tokens().TakeUses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].tenant, "a");
  EXPECT_THAT(tenants.tokens().TakeUses(), ::testing::IsEmpty()) << "once a minute";
  TokenTable next;
  next.Put(launcher);
  next.SetUsed(uses[0].id, uses[0].record);
  EXPECT_EQ(next.RoomOf("a", now + absl::Hours(24 * 29)).forgotten, "");
  EXPECT_EQ(next.RoomOf("a", now + absl::Hours(24 * 31)).forgotten, launcher.about().id());
  launcher.mutable_about()->set_revoked_unix_ms(1);
  next.Put(launcher);
  EXPECT_EQ(next.RoomOf("a", now).forgotten, launcher.about().id()) << "no run goes on with a revoked one";
}

TEST(RightsTest, EachRoleOfATenantHasTheRightsOfThoseBelowIt) {
  const std::vector<v1::Role> roles = {v1::VIEWER, v1::LAUNCHER, v1::OPERATOR, v1::ADMIN, v1::ROOT};
  for (int right = 0; right <= static_cast<int>(Right::kReflect); ++right) {
    bool had = false;
    for (const v1::Role role : roles) {
      const bool has = Has(role, static_cast<Right>(right));
      EXPECT_TRUE(has || !had) << right << " of " << RoleName(role);
      had = has;
    }
    EXPECT_TRUE(had) << "root may do everything";
    EXPECT_FALSE(Has(v1::ROLE_UNSPECIFIED, static_cast<Right>(right)));
  }
  EXPECT_FALSE(MayGive(v1::ADMIN, v1::AUDITOR));
  EXPECT_FALSE(MayGive(v1::OPERATOR, v1::VIEWER));
}

TEST(TenantsTest, ACredentialIsOfOneRunAndCannotBeChanged) {
  Tenants tenants;
  ASSERT_TRUE(tenants.Put(Tenant("a")).ok());
  v1::TokenRecord token = Token("a", v1::LAUNCHER, "token-a");
  tenants.tokens().Put(token);
  tenants.SetRunKey("key");
  v1::Launch launch;
  launch.set_nonce("n");
  launch.set_who("alice");
  launch.set_since_unix_ms(5);
  const std::string credential = tenants.CredentialOf({"a", "train"}, launch, token.about().id());
  const auto access = tenants.Authenticate(credential);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_TRUE(access->IsOfRun());
  EXPECT_EQ(access->tenant, "a");
  EXPECT_EQ(access->job, "train");
  EXPECT_EQ(access->launch.nonce(), "n");
  EXPECT_EQ(access->role, v1::ROLE_UNSPECIFIED);
  for (size_t i = 0; i < credential.size(); ++i) {
    std::string changed = credential;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(tenants.Authenticate(changed).ok()) << i;
  }
  EXPECT_FALSE(tenants.Authenticate(tenants.CredentialOf({"gone", "train"}, launch, token.about().id())).ok());
  token.mutable_about()->set_expires_unix_ms(1);
  tenants.tokens().Put(token);
  EXPECT_TRUE(tenants.Authenticate(credential).ok()) << "a run goes on when its launcher's token has expired";
  token.mutable_about()->set_revoked_unix_ms(1);
  tenants.tokens().Put(token);
  EXPECT_THAT(tenants.Authenticate(credential).status().message(), HasSubstr("launched with a token that has ended"));
  token.mutable_about()->clear_revoked_unix_ms();
  tenants.tokens().Put(token);
  tenants.SetRunKey("another");
  EXPECT_FALSE(tenants.Authenticate(credential).ok());
}

TEST(TenantsTest, NamesAreBoundedAndTheTableToo) {
  EXPECT_TRUE(CheckTenantName("team-7").ok());
  for (const std::string& bad : {std::string(), std::string("A"), std::string("a/b"), std::string(65, 'a')}) {
    EXPECT_EQ(CheckTenantName(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  Tenants tenants;
  for (size_t i = 0; i < kMaxTenants; ++i) ASSERT_TRUE(tenants.Put(Tenant(absl::StrCat("t", i))).ok());
  EXPECT_EQ(tenants.Put(Tenant("one-more")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(tenants.Put(Tenant("t0")).ok());
}

}  // namespace
}  // namespace farandole
