#ifndef FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
#define FARANDOLE_SERVER_LOOP_JOB_ROWS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/monitor.pb.h"
#include "server/registry/job_key.h"
#include "server/store/store.h"

namespace farandole {

// The job that a row under KIND/TENANT/JOB is of; nullopt: the key is another one.
std::optional<JobKey> JobOfRow(absl::string_view row_key);
// The key of the job's JobRecord.
std::string JobRowKey(const JobKey& key);

// How long after a job's deletion its name is remembered. Then a new job of this name begins as if there had been none.
inline constexpr absl::Duration kGoneKept = absl::Hours(30 * 24);

std::string SummaryRowKey(const JobKey& key);
// A summary without what changes all the time, and is not kept.
v1::JobSummary LastingPart(v1::JobSummary summary);

// Whether they have the job's record: there is such a job.
bool HasRecord(const JobKey& key, absl::Span<const StoreRow> rows);
// Whether they are what is left of a deleted job.
bool AreLeftOver(const JobKey& key, absl::Span<const StoreRow> rows);
// The commits that delete these rows of a job without a record, to be made in their order: the last one releases the
// owner. The row under gone/ stays for kGoneKept.
std::vector<StoreBatch> PurgeOf(const JobKey& key, absl::Span<const StoreRow> rows, absl::Time now);

// When the job of a row under gone/ was deleted; InfinitePast: the row cannot be read.
absl::Time DeletedAt(const StoreRow& row);

// Takes the job over from its last owner and reads all its rows, as proto/farandole/v1/store.proto lists them, by one
// call to the store. No rows: there is no such job yet. `done` is called once, on a thread of the store. Errors: the
// store's.
void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<AcquiredRows>)> done);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
