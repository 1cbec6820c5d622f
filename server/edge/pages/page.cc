#include "server/edge/pages/page.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

constexpr size_t kMostShown = 128;

}  // namespace

absl::StatusOr<Page> ParsePage(absl::string_view list, uint32_t page_size, const std::string& page_token) {
  Page page;
  if (page_size != 0) page.most = std::min(page_size, kMostOfPage);
  if (page_token.empty()) return page;
  std::string text;
  absl::string_view after;
  if (absl::WebSafeBase64Unescape(page_token, &text)) after = text;
  if (!absl::ConsumePrefix(&after, absl::StrCat(list, ":")) || after.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("page_token: \"", absl::CHexEscape(page_token.substr(0, kMostShown)),
                                                   "\" is none of the list of ", list));
  }
  page.after = std::string(after);
  return page;
}

std::string PageToken(absl::string_view list, absl::string_view key) {
  return absl::WebSafeBase64Escape(absl::StrCat(list, ":", key));
}

}  // namespace farandole
