#ifndef FARANDOLE_BASE_TEXT_CLIENT_NETWORK_H_
#define FARANDOLE_BASE_TEXT_CLIENT_NETWORK_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// By what clients are counted where each may have only so much: the least that is given to one customer or host. An
// IPv4 address counts alone, also as IPv6 writes it ("::ffff:10.0.0.7", "64:ff9b::a00:7"). The first
// 64 bits of an IPv6 address count, because a host may choose the rest at will (RFC 4291, section 2.5.4):
// "2001:db8:0:7::/64". `address` has no port; a zone ("%eth0") does not count. A text that is no address counts as
// itself.
std::string ClientNetwork(absl::string_view address);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_CLIENT_NETWORK_H_
