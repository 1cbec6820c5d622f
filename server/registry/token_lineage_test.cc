// The walks over which tokens were made or rotated with which. That tokens end by them: registry_test.
#include "server/registry/token_lineage.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/registry/token_table.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

v1::TokenRecord Token(const std::string& id, const std::string& made_with = "", int64_t created = 0) {
  v1::TokenRecord record;
  record.mutable_about()->set_id(id);
  record.mutable_about()->set_tenant("a");
  record.mutable_about()->set_made_with(made_with);
  record.mutable_about()->set_created_unix_ms(created);
  return record;
}

void AddRotation(const std::string& with, int64_t first, int64_t last, v1::TokenRecord* record) {
  v1::TokenRecord::Rotation* rotation = record->add_rotations();
  rotation->set_token_id(with);
  rotation->set_first_unix_ms(first);
  rotation->set_last_unix_ms(last);
}

TEST(TokenLineageTest, AHolderReachesByTheEarliestWayAndNotBeforeHeHadTheOrigin) {
  TokenLineage lineage;
  lineage.Put(Token("root"));
  lineage.Put(Token("child", "root", 100));
  v1::TokenRecord rotated = Token("rotated", "child", 50);
  AddRotation("root", 300, 400, &rotated);
  AddRotation("child", 200, 250, &rotated);
  lineage.Put(rotated);
  using Times = TokenLineage::Times;
  EXPECT_EQ(lineage.ReachOf("root", 0), (Times{{"root", 0}, {"child", 0}, {"rotated", 0}}));
  EXPECT_EQ(lineage.ReachOf("root", 60), (Times{{"root", 60}, {"child", 60}, {"rotated", 200}}));
  EXPECT_EQ(lineage.ReachOf("root", 101), (Times{{"root", 101}, {"rotated", 300}}));
  EXPECT_EQ(lineage.ReachOf("root", 401), (Times{{"root", 401}}));
  lineage.Put(Token("rotated"));
  EXPECT_EQ(lineage.ReachOf("root", 60), (Times{{"root", 60}, {"child", 60}})) << "its new record has no origin";
  lineage.Erase("child");
  EXPECT_EQ(lineage.ReachOf("root", 60), (Times{{"root", 60}}));
}

TEST(TokenLineageTest, ThoseThatReachAGoodOneAreThoseOfWhichAWalkFindsOne) {
  std::mt19937 random(1);
  const auto number = [&random](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int turn = 0; turn < 300; ++turn) {
    TokenLineage lineage;
    std::vector<std::string> over;
    for (int i = 0; i < 8; ++i) {
      v1::TokenRecord token =
          Token(absl::StrCat(i), i > 0 && number(2) == 0 ? absl::StrCat(number(i - 1)) : "", number(9));
      for (int links = number(2); links > 0; --links) {
        const int first = number(9);
        AddRotation(absl::StrCat((i + number(6) + 1) % 8), first, first + number(3), &token);
      }
      lineage.Put(token);
      if (i % 4 != 0) over.push_back(absl::StrCat(i));
    }
    const auto is_good = [](const std::string& id) { return id == "0" || id == "4"; };
    std::set<std::string> expected;
    for (const std::string& id : over) {
      for (const auto& [reached, since] : lineage.ReachOf(id, 0)) {
        if (is_good(reached)) expected.insert(id);
      }
    }
    ASSERT_EQ(lineage.ThoseThatReach(over, is_good), expected) << turn;
  }
}

// As many tokens as a tenant may have, each rotated with 32 others: for one change of them, a walk over all links.
TEST(TokenLineageTest, TokensThatRotatedEachOtherEndSoonOneAfterTheOther) {
  constexpr int kRotators = 32;
  TokenTable table;
  std::vector<v1::TokenRecord> tokens;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    tokens.push_back(Token(absl::StrCat("token", i)));
    for (int k = 1; k <= kRotators; ++k)
      AddRotation(absl::StrCat("token", (i + k) % kMaxTokens), static_cast<int64_t>(i) * 7 % 100, 1000, &tokens.back());
    table.Put(tokens.back());
  }
  const std::clock_t began = std::clock();
  const absl::Time now = absl::FromUnixSeconds(1000);
  for (v1::TokenRecord& token : tokens) {
    if (token.about().id() == "token9") token.set_is_revoked_with_made(true);
    token.mutable_about()->set_revoked_unix_ms(10);
    table.Put(token);
    EXPECT_NE(table.RoomOf("a", now).forgotten, "");
  }
  EXPECT_TRUE(table.EndingWith("token9", 0, now).empty());
  TokenTable next;
  for (const v1::TokenRecord& token : tokens) next.Put(token);
  // Each took a walk of its own for each of the 32 links before: an hour.
  EXPECT_LT(std::clock() - began, 60 * CLOCKS_PER_SEC);
}

// The table asks for a token's links in parts, and does not enter what has ended already.
TEST(TokenLineageTest, ThoseThatEndWithATokenAreThoseOfWhichAWalkFindsThatTheyAreGood) {
  std::mt19937 random(1);
  const auto number = [&random](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int turn = 0; turn < 300; ++turn) {
    const int count = turn % 100 == 0 ? 700 : 12;
    TokenLineage lineage;
    TokenTable table;
    for (int i = 0; i < count; ++i) {
      // Many of a few.
      v1::TokenRecord token = Token(absl::StrCat(i), i > 0 ? absl::StrCat(number(std::min(i - 1, 3))) : "", number(9));
      for (int links = number(2); links > 0; --links) {
        const int first = number(9);
        AddRotation(absl::StrCat((i + number(6) + 1) % count), first, first + number(3), &token);
      }
      if (number(3) == 0) token.mutable_about()->set_revoked_unix_ms(1);
      if (token.about().revoked_unix_ms() != 0 && number(3) == 0) {
        token.set_is_revoked_with_made(true);
        token.set_made_since_unix_ms(number(9));
      }
      lineage.Put(token);
      table.Put(token);
    }
    for (int i = 0; i < 12; ++i) {
      const std::string id = absl::StrCat(i);
      const int64_t since = number(9);
      std::vector<std::string> expected;
      for (const auto& [reached, taken] : lineage.ReachOf(id, since)) {
        if (reached != id && table.CheckStanding(reached, absl::UnixEpoch(), /*while_unexpired=*/true).ok())
          expected.push_back(reached);
      }
      std::vector<std::string> ending = table.EndingWith(id, since, absl::UnixEpoch());
      EXPECT_EQ(table.EndsAnyWith(id, since, absl::UnixEpoch()), !ending.empty());
      std::sort(ending.begin(), ending.end());
      ASSERT_EQ(ending, expected) << turn;
    }
  }
}

TEST(TokenLineageTest, AWalkGoesOnWhereTokensChangeMeanwhile) {
  constexpr int kTokens = 300;
  TokenTable table;
  for (int i = 0; i < kTokens; ++i) table.Put(Token(absl::StrCat(i), i > 0 ? absl::StrCat(i / 100) : "", 5));
  std::atomic<bool> is_over{false};
  std::thread walks([&] {
    while (!is_over) EXPECT_GE(table.EndingWith("0", 0, absl::UnixEpoch()).size(), 9u);
  });
  for (int i = 0; i < 3000; ++i) {
    const int changed = 10 + i % (kTokens - 10);
    table.Erase(absl::StrCat(changed));
    table.Put(Token(absl::StrCat(changed), absl::StrCat(changed / 100), 5));
  }
  is_over = true;
  walks.join();
  EXPECT_EQ(table.EndingWith("0", 0, absl::UnixEpoch()).size(), kTokens - 1u);
}

TEST(TokenLineageTest, ATokenThatWasRevokedWithAllThatIsAskedForTakesNoWalk) {
  TokenTable table;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    v1::TokenRecord token = Token(absl::StrCat("token", i));
    for (size_t k = 1; k <= 32; ++k) AddRotation(absl::StrCat("token", (i + k) % kMaxTokens), 50, 1000, &token);
    token.mutable_about()->set_revoked_unix_ms(10);
    token.set_is_revoked_with_made(i == 9);
    token.set_made_since_unix_ms(20);
    table.Put(token);
  }
  const std::clock_t began = std::clock();
  for (int i = 0; i < 20'000; ++i) EXPECT_FALSE(table.EndsAnyWith("token9", 20, absl::UnixEpoch()));
  // A walk took 4 ms, and 20 times as long under ASan.
  EXPECT_LT(std::clock() - began, 10 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace farandole
