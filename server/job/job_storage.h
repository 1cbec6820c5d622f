#ifndef FARANDOLE_SERVER_JOB_JOB_STORAGE_H_
#define FARANDOLE_SERVER_JOB_JOB_STORAGE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "checkpoint/gate.h"
#include "server/job/parts.h"
#include "server/store/store.h"

namespace farandole {

// Reads and writes the rows that keep a job; see store.proto. Owned by its Job.
class JobStorage {
 public:
  explicit JobStorage(JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // The job as the rows of an earlier life describe it. DATA_LOSS: a row cannot be parsed (named).
  absl::Status Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead);
  // Puts the job's record, and the members of an epoch that forms, into the step's actions.
  void Save();
  // The same for rows of checkpoints.
  void SaveCheckpoints(CheckpointGate::Writes writes);

 private:
  // `members_row`: null where there is none.
  absl::Status LoadRecord(const StoreRow& row, const StoreRow* members_row);
  // Brings back survivors, or the epoch that runs, as the record has them.
  void RestoreSurvivors();
  void RestoreEpoch();

  JobParts& job_;
  Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_JOB_STORAGE_H_
