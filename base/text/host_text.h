#ifndef FARANDOLE_BASE_TEXT_HOST_TEXT_H_
#define FARANDOLE_BASE_TEXT_HOST_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// A name or an address as addresses with a port and URLs have it: an IPv6 address in brackets.
std::string BracketedHost(absl::string_view host);
// "host:7070", "[::1]:7070".
std::string HostPort(absl::string_view host, int port);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_HOST_TEXT_H_
