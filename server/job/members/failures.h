#ifndef FARANDOLE_SERVER_JOB_MEMBERS_FAILURES_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"
#include "server/job/members/barred_hosts.h"
#include "server/job/members/estranged_hosts.h"
#include "server/job/members/lost_workers.h"

namespace farandole {

// Which workers of one run were lost, which of its processes have ended, and the hosts that newcomers stay away from
// because of it. Owned by its Job.
class Failures {
 public:
  static constexpr size_t kMostExitsKept = 65536;

  // Another run begins.
  void Clear();
  // A run's terms; no process of it has ended yet.
  void Configure(const v1::Elastic& terms);

  // The launcher says that a process has ended. False: it has reported it before.
  bool NoteExit(uint32_t launch_index);
  bool HasExited(uint32_t launch_index) const { return exits_.contains(launch_index); }

  // A worker was lost. `is_counted`: the loss counts against its host. Not kept if the launcher has reported its exit.
  void NoteLoss(const v1::Member& member, const std::string& sentence, bool is_counted, absl::Time now);
  // A lost worker's process has ended, or the worker is seen again.
  void ForgetLoss(uint32_t launch_index) { lost_.Remove(launch_index); }
  // Null: it was not lost, or is forgotten.
  const LostWorkers::Loss* FindLoss(uint32_t launch_index) const { return lost_.Find(launch_index); }
  v1::ListLostResponse ListLost(absl::Time now) const { return lost_.List(now); }

  // A worker has failed on the host. The sentence if that bars the host, else "".
  std::string Count(const std::string& hostname, absl::Time now) { return hosts_.Fail(hostname, now); }
  // Other hosts could not reach this one.
  void Estrange(const std::string& host_id, absl::Time now) { estranged_.Add(host_id, now); }
  // Why a newcomer from this member's host must wait; "": it need not.
  std::string BarringSentence(const v1::Member& member, absl::Time now) const;
  // The barred hosts, as people and launchers ask for them.
  const BarredHosts& hosts() const { return hosts_; }
  // The launcher has another name for a host.
  void NameHost(const std::string& hostname, const std::string& launcher_name) { hosts_.Name(hostname, launcher_name); }

  // As of BarredHosts and LostWorkers.
  void Save(absl::Duration wall_ahead, v1::JobRecord* record) const;
  void Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead);

 private:
  BarredHosts hosts_;
  EstrangedHosts estranged_;
  // The launcher's word about their processes comes later, and counts no second time.
  LostWorkers lost_;
  // Launch indices.
  absl::btree_set<uint32_t> exits_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_FAILURES_H_
