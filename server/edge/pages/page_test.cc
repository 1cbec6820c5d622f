#include "server/edge/pages/page.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

absl::StatusOr<std::string> Add(const std::vector<std::string>& items, uint32_t size, const std::string& token,
                                std::vector<std::string>* page) {
  return AddPage(
      "names", items, [](const std::string& item) { return item; }, size, token,
      [&](const std::string& item) { page->push_back(item); });
}

TEST(PageTest, PagesAreWalkedWhileItemsAppearAndVanish) {
  std::vector<std::string> first, second, third;
  const std::string after_b = Add({"a", "b", "c", "e"}, 2, "", &first).value();
  EXPECT_EQ(first, std::vector<std::string>({"a", "b"}));
  // The one that the token names is gone, and others have come before and behind it.
  const std::string after_d = Add({"a", "aa", "c", "d", "e"}, 2, after_b, &second).value();
  EXPECT_EQ(second, std::vector<std::string>({"c", "d"}));
  EXPECT_EQ(Add({"a", "aa"}, 2, after_d, &third).value(), "");
  EXPECT_TRUE(third.empty());
}

TEST(PageTest, AFullLastPageHasNoNextOne) {
  std::vector<std::string> page;
  EXPECT_EQ(Add({"a", "b"}, 2, "", &page).value(), "");
  EXPECT_EQ(page.size(), 2u);
}

TEST(PageTest, TheSizeIsBounded) {
  std::vector<int> numbers(3 * kMostOfPage);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(1'000'000 + i);
  for (const uint32_t size : {0u, kMostOfPage, kMostOfPage + 1, ~0u}) {
    size_t count = 0;
    const auto next = AddPage(
        "numbers", numbers, [](int number) { return std::to_string(number); }, size, "", [&](int) { ++count; });
    EXPECT_EQ(count, kMostOfPage) << size;
    EXPECT_NE(next.value(), "");
  }
}

TEST(PageTest, ATokenOfAnotherListOrOfNoneIsRefused) {
  for (const std::string& token :
       {std::string("not base64!"), std::string("bmFtZXM"), PageToken("jobs", "a"), PageToken("names", "")}) {
    const absl::Status status = ParsePage("names", 0, token).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << token;
    EXPECT_EQ(status.message(), "page_token: \"" + token + "\" is none of the list of names");
  }
  EXPECT_EQ(ParsePage("names", 7, PageToken("names", "x:y")).value().after, "x:y");
}

}  // namespace
}  // namespace farandole
