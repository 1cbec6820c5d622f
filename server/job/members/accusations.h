#ifndef FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/job/members/broken_links.h"
#include "server/job/members/roster.h"

namespace farandole {

// Members of a running epoch report members on other hosts to which they have lost the connection, while the
// coordinator hears both: the network between their hosts may have failed. So both may accuse each other, and all
// accusations are judged together with those of epochs before. Owned by its RunningEpoch.
class Accusations {
 public:
  // For the others to say it, too. Sockets that fail for the same reason do so within the time of a retransmission.
  static constexpr absl::Duration kWindow = absl::Milliseconds(500);

  void Add(uint32_t accuser, uint32_t accused, const std::string& evidence, absl::Time now);
  // The first claim against a member, "" if there is none.
  std::string Against(uint32_t rank) const;
  // When Judge is due.
  absl::Time deadline() const { return deadline_; }
  // The members to lose so that all that are left reach each other: all members of as few hosts as can be found by
  // taking each time the host with the most broken links, of this epoch and of those before; of equals the one with
  // fewer members, then the one whose first rank is higher. Empty: the members concerned have left. Forgets the
  // accusations, which `links` then has.
  std::vector<Roster::Loss> Judge(const Roster& roster, BrokenLinks* links, absl::Time now);

 private:
  struct Accusation {
    uint32_t accuser;
    uint32_t accused;
    std::string evidence;
  };
  std::string Claim(const std::string& host, const std::vector<Accusation>& said, const Roster& roster) const;

  std::vector<Accusation> said_;
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_
