#ifndef FARANDOLE_SERVER_JOB_EPOCH_DIAGNOSIS_H_
#define FARANDOLE_SERVER_JOB_EPOCH_DIAGNOSIS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/types.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/measurements.h"
#include "server/diagnosis/memory_budget.h"
#include "server/diagnosis/roll_up_history.h"
#include "server/diagnosis/told_blockers.h"
#include "server/job/members/roster.h"
#include "server/job/names/negotiation.h"

namespace farandole {

// Collects the measurements of an epoch's ranks from their heartbeats and runs the Judge on them from time to time.
// Owned by its RunningEpoch, whose parts it borrows.
class EpochDiagnosis {
 public:
  // `budget` may be null; shared by the jobs of the coordinator. `history`: the job's, in which the epoch has begun.
  EpochDiagnosis(const Roster* roster, const Negotiation* negotiation, std::shared_ptr<MemoryBudget> budget,
                 MeasuredHistory* history);
  EpochDiagnosis(const EpochDiagnosis&) = delete;
  EpochDiagnosis& operator=(const EpochDiagnosis&) = delete;

  // A heartbeat within its bounds. Sentences for the history: of blockers that are new in this epoch, and dear.
  std::vector<std::string> Take(const v1::Heartbeat& heartbeat, absl::Time now);
  // The epoch ends: the last seconds go to the history.
  void Close();
  // The judgement, by now a few seconds old, with the sums as they are now.
  v1::Diagnosis Report(absl::Duration wall_ahead) const;
  // Adds to a rank's history how long its sections take.
  void AddSections(uint32_t rank, v1::RankHistory* shown) const;
  // Adds to a rank's status how it did lately, and where its program is; nothing where that is not known.
  void Describe(uint32_t rank, absl::Time now, v1::WorkerStatus* status) const;
  std::vector<v1::HostStatus> Hosts() const;
  // The dearest blocker's sentence, or "".
  std::string Sentence() const;
  // As the list of jobs has it: no rank but one is looked at.
  std::optional<double> StepsPerSecond() const {
    return measurements_ == nullptr ? std::nullopt : measurements_->StepsPerSecond();
  }

 private:
  const Roster* const roster_;
  const Negotiation* const negotiation_;
  const std::shared_ptr<MemoryBudget> budget_;
  MeasuredHistory* const history_;
  EpochFacts around_;
  std::vector<std::string> host_names_;
  // From the first measurement on.
  std::unique_ptr<Measurements> measurements_;
  absl::Time judged_ = absl::InfinitePast();
  v1::Diagnosis latest_;
  ToldBlockers told_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EPOCH_DIAGNOSIS_H_
