#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEASURED_ROWS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEASURED_ROWS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "server/diagnosis/roll_up_history.h"
#include "server/store/store.h"

namespace farandole {

// The rows of what a job's ranks and hosts have measured: the history, and the last report of diagnosis and hosts. They
// are no part of a step: no decision waits for them, and nothing is wrong if the last ones are lost. Pure. Owned by its
// Job.
class MeasuredRows {
 public:
  // `rows`: what their keys begin with. `budget` as RollUpHistory's.
  MeasuredRows(const std::string& rows, MemoryBudget* budget)
      : rows_(rows), history_(rows, budget), report_key_(rows + "report") {}

  MeasuredHistory& history() { return history_; }
  const MeasuredHistory& history() const { return history_; }
  bool IsDue() const { return history_.ranks.IsDue() || history_.hosts.IsDue(); }
  // The rows that are due, as many as one commit takes. `report` makes the report, which is written each minute while
  // the job is running, and at the end.
  StoreBatch Take(absl::Time now, bool is_running, const std::function<v1::GetJobResponse()>& report);
  // A row of an earlier life, in the order of keys. DATA_LOSS: it cannot be read.
  absl::Status Load(const StoreRow& row);
  // The report of the earlier life; empty: there is none.
  const v1::GetJobResponse& loaded() const { return loaded_; }
  // Whether a row of any job can be read.
  static bool IsWhole(const StoreRow& row);
  // Deletes all of it, in memory and in the store.
  void Clear();

 private:
  // Appends the history's rows that are due. False: there is more.
  bool SaveHistory(StoreBatch* batch);

  const std::string rows_;
  MeasuredHistory history_;
  const std::string report_key_;
  v1::GetJobResponse loaded_;
  absl::Time reported_ = absl::InfinitePast();
  // The store has a report; and it is to go.
  bool has_report_ = false;
  bool is_cleared_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEASURED_ROWS_H_
