#ifndef FARANDOLE_SERVER_EDGE_PAGES_PAGE_H_
#define FARANDOLE_SERVER_EDGE_PAGES_PAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Most rows of a page, and how many it has where the caller names no number.
inline constexpr uint32_t kMostOfPage = 1000;

// The part of a list that a call wants. A page token names the last row of the page before by what the rows are sorted
// by, so that it keeps its meaning when rows appear and vanish.
struct Page {
  // The rows behind this one; "": from the first one on.
  std::string after;
  // 1 to kMostOfPage.
  size_t most = kMostOfPage;
};

// `list`: which list a token is for ("jobs"). `page_size`: 0 and more than kMostOfPage mean kMostOfPage.
// INVALID_ARGUMENT: the token is none of this list's.
absl::StatusOr<Page> ParsePage(absl::string_view list, uint32_t page_size, const std::string& page_token);
// The token of the page behind the row that is sorted by `key`.
std::string PageToken(absl::string_view list, absl::string_view key);

// Calls `add` for the items of a page of `sorted`, and gives the next page's token; "": there is none. `key_of` gives
// what they are sorted by, which differs between any two.
template <typename Item, typename KeyOf, typename Add>
absl::StatusOr<std::string> AddPage(absl::string_view list, const std::vector<Item>& sorted, const KeyOf& key_of,
                                    uint32_t page_size, const std::string& page_token, const Add& add) {
  const absl::StatusOr<Page> page = ParsePage(list, page_size, page_token);
  if (!page.ok()) return page.status();
  const auto first = std::find_if(sorted.begin(), sorted.end(),
                                  [&](const Item& item) { return page->after.empty() || key_of(item) > page->after; });
  auto next = first;
  for (; next != sorted.end() && static_cast<size_t>(next - first) < page->most; ++next) add(*next);
  return next == sorted.end() ? "" : PageToken(list, key_of(*std::prev(next)));
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_PAGES_PAGE_H_
