#ifndef FARANDOLE_SERVER_JOB_JOB_STORAGE_H_
#define FARANDOLE_SERVER_JOB_JOB_STORAGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "checkpoint/gate.h"
#include "server/job/parts.h"
#include "server/store/store.h"

namespace farandole {

// Reads and writes the rows that keep a job; see store.proto. Owned by its Job.
class JobStorage {
 public:
  explicit JobStorage(JobParts* job)
      : job_(*job), ledger_(job->ledger), catalogue_charge_(job->options.bytes, ByteKind::kCheckpoints) {}

  // The job as the rows of an earlier life describe it. DATA_LOSS: a row cannot be parsed (named).
  absl::Status Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead);
  // Puts the job's record, and the members of an epoch that forms, into the step's actions.
  void Save();
  // Puts into the step's actions what deletes the job. Its checkpoints and grants are left to the shell: they may be
  // more than one batch takes.
  void Delete();
  // Whether the job has the memory for the checkpoint that this asks for.
  absl::Status AdmitCheckpoint(const v1::BeginCheckpointRequest& request) const;
  // As Save, for rows of checkpoints.
  void SaveCheckpoints(CheckpointGate::Writes writes);

 private:
  std::string KeyOf(absl::string_view kind) const;
  // Rows that cannot be read are left out; their sentences, for the job's history.
  std::vector<std::string> LoadMeasured(absl::Span<const StoreRow> rows);
  void AdoptReport();
  // The job's name was that of a job that was deleted.
  absl::Status LoadGone(const StoreRow& row);
  // `members_row`: null where there is none.
  absl::Status LoadRecord(const StoreRow& row, const StoreRow* members_row);
  // Brings back survivors, or the epoch that runs, as the record has them.
  void RestoreSurvivors();
  void RestoreEpoch();

  JobParts& job_;
  Ledger& ledger_;
  // One that is written already is never refused.
  ByteCharge catalogue_charge_;
  // The store has a row of a deleted job of this name.
  bool has_gone_row_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_JOB_STORAGE_H_
