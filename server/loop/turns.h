#ifndef FARANDOLE_SERVER_LOOP_TURNS_H_
#define FARANDOLE_SERVER_LOOP_TURNS_H_

#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "server/registry/job_key.h"

namespace farandole {

// The order in which jobs with events get their turn: the tenants in a circle, and each tenant's jobs in a circle of
// their own, so that a tenant with many busy jobs gets no more turns than one with a single job. A turn that took
// longer than it should is made up for: its tenant is passed over while others wait (deficit round robin, with time in
// the place of bytes). When nobody waits, all is made up for. One thread.
class Turns {
 public:
  // How long a turn should take; and the most that a tenant is passed over for.
  static constexpr absl::Duration kTurn = absl::Microseconds(200);
  static constexpr absl::Duration kMostDebt = absl::Milliseconds(200);

  // The job wants a turn; nothing changes where it waits for one already.
  void Add(const JobKey& key);
  // The job whose turn is next, which then waits no longer. Not while IsEmpty().
  JobKey Next();
  // A turn of this tenant took so long.
  void Charge(const std::string& tenant, absl::Duration took);
  bool IsEmpty() const { return tenants_.empty(); }
  // The loop has nothing to do: if nobody waits, no tenant owes anything.
  void Forgive();
  // Tenants that wait: as many turns make a round.
  size_t tenants() const { return tenants_.size(); }

 private:
  // Passes over tenants that have debts, until the first one of `tenants_` has none. Costs as many steps as there are
  // tenants that wait and have any.
  void PassOver();
  // The time of this tenant's turns beyond kTurn that is not made up for.
  absl::Duration DebtOf(const std::string& tenant) const;
  void Repay(const std::string& tenant, absl::Duration time);

  std::deque<std::string> tenants_;
  absl::flat_hash_map<std::string, std::deque<JobKey>> jobs_;
  absl::flat_hash_set<JobKey> waiting_;
  // How long the last one took, but for what is owed. A tenant is passed over for so much of its debt.
  absl::Duration last_turn_;
  // The debts of tenants that have any.
  absl::flat_hash_map<std::string, absl::Duration> debts_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_TURNS_H_
