#include "server/bytes/tenant_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole {

bool TenantLines::Admit(const std::string& tenant, absl::Time now) {
  Tell(now);
  const auto [found, is_new] = windows_.try_emplace(tenant);
  Window& window = found->second;
  if (is_new) window.end = now + kWindow;
  const bool is_admitted = window.written < most_in_window_;
  is_admitted ? ++window.written : ++window.others;
  return is_admitted;
}

void TenantLines::Tell(absl::Time now) {
  for (auto it = windows_.begin(); it != windows_.end();) {
    const Window& window = it->second;
    if (now < window.end) {
      ++it;
      continue;
    }
    if (window.others > 0) {
      write_(it->first, absl::StrCat(window.others, " more lines about its ", about_, " in ",
                                     absl::FormatDuration(kWindow), " are left out"));
    }
    it = windows_.erase(it);
  }
}

absl::Time TenantLines::due() const {
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [tenant, window] : windows_) {
    if (window.others > 0) due = std::min(due, window.end);
  }
  return due;
}

}  // namespace farandole
