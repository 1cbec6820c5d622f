#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OWN_ADDRESSES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OWN_ADDRESSES_H_

#include <string>
#include <vector>

namespace farandole::launcher {

// How this machine may be reached.
struct OwnAddresses {
  // Of its interfaces that are up, without brackets; link-local ones, which need a scope, are left out. At most 32 of
  // each.
  std::vector<std::string> routable;
  std::vector<std::string> loopback;
  bool has_ipv6 = false;
};

OwnAddresses FindOwnAddresses();

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OWN_ADDRESSES_H_
