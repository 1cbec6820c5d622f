#ifndef FARANDOLE_WEB_HOST_NAME_H_
#define FARANDOLE_WEB_HOST_NAME_H_

#include <string>
#include <vector>

namespace farandole {

// Whether a request whose header Host is `host` was meant for this edge: it names an address, localhost, or one of
// `names`, with any port or none. A page of another site, whose name its owner has made to mean this machine (DNS
// rebinding), names that site. A request without the header comes from no browser.
bool IsOwnHost(const std::string& host, const std::vector<std::string>& names);

// Whether it is one of `names`, with any port or none.
bool IsOneOf(const std::string& host, const std::vector<std::string>& names);

}  // namespace farandole

#endif  // FARANDOLE_WEB_HOST_NAME_H_
