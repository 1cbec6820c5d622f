#ifndef FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "server/bytes/byte_account.h"
#include "server/job/members/broken_links.h"
#include "server/job/members/roster.h"

namespace farandole {

// Collects reports of lost connections between hosts. A member of a running epoch has lost its connection to a member
// on another host, but the coordinator hears both: the network between the two hosts may have failed, and each may
// report the other. Judge decides about all reports together, with those of earlier epochs. Owned by its RunningEpoch.
class Accusations {
 public:
  // How long to wait for further reports after the first. Sockets that fail for the same reason fail within the time of
  // one retransmission.
  static constexpr absl::Duration kWindow = absl::Milliseconds(500);
  // Of more reports in this time the first are enough: those whose hosts remain report again in the next epoch.
  static constexpr size_t kMost = 8192;

  // `bytes`, which may be null, is charged for the reports.
  explicit Accusations(std::shared_ptr<ByteAccount> bytes) : charge_(std::move(bytes), ByteKind::kReports) {}

  void Add(uint32_t accuser, uint32_t accused, const std::string& evidence, absl::Time now);
  // The first claim against a member, "" if there is none.
  std::string Against(uint32_t rank) const;
  // When Judge is due.
  absl::Time deadline() const { return deadline_; }
  // Chooses the members to declare lost, so that all remaining members reach each other. Removes whole hosts, one by
  // one: each time the host with the most broken links (of this epoch and of earlier ones), among equals the one with
  // fewer members, then the one whose first rank is higher. Empty: the accused or accusing members have left. Moves the
  // accusations to `links`.
  std::vector<Roster::Loss> Judge(const Roster& roster, BrokenLinks* links, absl::Time now);

 private:
  struct Accusation {
    uint32_t accuser;
    uint32_t accused;
    std::string evidence;
  };

  // Why the host's members are lost. `of_host`: the accusations of which it has one side.
  static std::string Claim(const Roster& roster, const std::vector<Accusation>& said, const std::vector<bool>& is_open,
                           const std::vector<size_t>& of_host, const std::string& host);

  std::vector<Accusation> said_;
  // Accuser and accused.
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> known_;
  // The first accusation of each that is accused.
  absl::flat_hash_map<uint32_t, size_t> first_against_;
  ByteCharge charge_;
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_ACCUSATIONS_H_
