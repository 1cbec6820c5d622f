#ifndef FARANDOLE_WEB_WRONG_TOKEN_LIMIT_H_
#define FARANDOLE_WEB_WRONG_TOKEN_LIMIT_H_

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace farandole {

// How often a client may show a token that is not known: 20 times at once, and once a second in the long run. A client
// is an address, or an IPv6 network (ClientNetwork); behind a proxy all are one. Pure. Owned by SignIn.
class WrongTokenLimit {
 public:
  static constexpr double kBurst = 20;
  static constexpr double kPerSecond = 1;
  static constexpr size_t kMostPeers = 1024;

  // Whether a wrong token of this client is within the limit now.
  bool MayTry(const std::string& peer, absl::Time now) const;
  void CountWrong(const std::string& peer, absl::Time now);
  size_t peers() const { return debts_.size(); }

 private:
  // How many wrong tokens are not forgiven yet.
  struct Debt {
    double count = 0;
    absl::Time at;

    double Left(absl::Time now) const;
  };

  absl::flat_hash_map<std::string, Debt> debts_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_WRONG_TOKEN_LIMIT_H_
