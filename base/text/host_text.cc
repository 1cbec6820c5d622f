#include "base/text/host_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {

std::string BracketedHost(absl::string_view host) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]") : std::string(host);
}

std::string HostPort(absl::string_view host, int port) { return absl::StrCat(BracketedHost(host), ":", port); }

}  // namespace farandole
