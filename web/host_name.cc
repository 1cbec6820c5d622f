#include "web/host_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "boost/asio/ip/address.hpp"

namespace farandole {

namespace {

// Without its port.
absl::string_view NameOf(absl::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  // In brackets an address has colons of its own.
  if (colon != absl::string_view::npos && (bracket == absl::string_view::npos || colon > bracket))
    host = host.substr(0, colon);
  return host;
}

}  // namespace

bool IsOwnHost(const std::string& host, const std::vector<std::string>& names) {
  if (host.empty()) return true;
  absl::string_view name = NameOf(host);
  if (absl::ConsumePrefix(&name, "[") && !absl::ConsumeSuffix(&name, "]")) return false;
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(name), error);
  if (!error || absl::EqualsIgnoreCase(name, "localhost")) return true;
  return IsOneOf(host, names);
}

bool IsOneOf(const std::string& host, const std::vector<std::string>& names) {
  const absl::string_view name = NameOf(host);
  return std::any_of(names.begin(), names.end(),
                     [name](const std::string& one) { return absl::EqualsIgnoreCase(name, one); });
}

}  // namespace farandole
