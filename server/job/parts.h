#ifndef FARANDOLE_SERVER_JOB_PARTS_H_
#define FARANDOLE_SERVER_JOB_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "checkpoint/gate.h"
#include "checkpoint/wanted_checkpoint.h"
#include "farandole/v1/monitor.pb.h"
#include "server/diagnosis/measured_rows.h"
#include "server/job/evidence/ended_flights.h"
#include "server/job/job.h"
#include "server/job/ledger.h"
#include "server/job/members/broken_links.h"
#include "server/job/members/failures.h"
#include "server/job/members/fence.h"
#include "server/job/members/launch_tokens.h"
#include "server/job/members/lobby.h"
#include "server/job/members/survivors.h"
#include "server/job/members/wanted_change.h"
#include "server/job/running_epoch.h"
#include "server/logged/logged_values.h"

namespace farandole {

// The state of a job. The classes that share it make the decisions: Admission lets workers join, EpochCycle forms and
// ends epochs, Losses handles lost workers, Departures makes workers leave, and Dismissal turns waiting workers away.
// JobReport shows the state to people, and JobStorage stores it. Owned by its Job.
struct JobParts {
  // An epoch that has ended, as people may still ask about it.
  struct LastEpoch {
    std::vector<v1::WorkerStatus> workers;
    std::string stall;
    absl::Time stalled_at;
    uint64_t negotiation_messages = 0;
    v1::Diagnosis diagnosis;
    std::vector<v1::HostStatus> hosts;
    // The flight recorders of its ranks; and the sentence that follows from them.
    EndedFlights flights;
    std::string flight;
  };

  JobParts(std::string tenant, std::string name, const JobOptions& options,
           std::function<std::string(size_t)> random_bytes);
  JobParts(const JobParts&) = delete;
  JobParts& operator=(const JobParts&) = delete;

  // A run of the job forms or runs.
  bool IsOngoing() const { return run != nullptr || ledger.record().state() == v1::JOB_STATE_FORMING; }
  bool IsElastic() const { return ledger.record().has_elastic(); }
  uint32_t MinSize() const { return ledger.record().elastic().min_size(); }
  uint32_t MaxSize() const { return ledger.record().elastic().max_size(); }
  RunningEpoch::StallLimits StallLimits() const;
  // An epoch has ended and has no survivor: the next epoch begins as in a first run.
  bool IsNobodyLeft() const;
  // Some members have left for good, without having been drained: the program is over.
  bool IsFinishing() const;
  // The members of the running epoch, or of the ended one while its survivors are awaited; null: neither exists.
  const Roster* PresentRoster() const;
  // How many waiting workers have a place in the next epoch, beside the members that remain.
  size_t Joining() const;
  // How the epoch that runs, or ran last, was measured lately.
  v1::GetJobResponse ReportMeasured() const;
  // An epoch ends: people may still ask how it was.
  void KeepLast();
  // Null where a loss ends the job.
  BrokenLinks* Links() { return IsElastic() ? &links : nullptr; }

  const JobOptions options;
  const std::function<std::string(size_t)> random_bytes;
  Ledger ledger;
  // The workers that wait for the next epoch.
  Lobby lobby;
  // Null: no epoch runs.
  std::unique_ptr<RunningEpoch> run;
  // Not null: an epoch of an elastic job has ended, and no next one has formed.
  std::unique_ptr<Survivors> survivors;
  // The workers that may not come back.
  Fence fence;
  // Incarnations that were drained, with the reason.
  Fence drained;
  // Of an elastic epoch that runs.
  std::unique_ptr<WantedChange> change;
  Failures failures;
  LaunchTokens launch_tokens;
  BrokenLinks links;
  CheckpointGate gate;
  WantedCheckpoint wanted;
  LoggedValues logged;
  // Rows of logged values are left to later Steps: a disk that does not take the earlier ones is not to get more of
  // them.
  bool defers_logged = false;
  MeasuredRows measured;
  // Since when an elastic job between two epochs has had fewer than min_size workers.
  absl::Time shortage_since = absl::InfiniteFuture();
  LastEpoch last;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_PARTS_H_
