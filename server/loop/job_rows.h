#ifndef FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
#define FARANDOLE_SERVER_LOOP_JOB_ROWS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/registry/job_key.h"
#include "server/store/store.h"

namespace farandole {

// The key of the job's JobRecord.
std::string JobRowKey(const JobKey& key);

// Takes the job over from its last owner and reads all its rows, as proto/farandole/v1/store.proto lists them, by one
// call to the store. No rows: there is no such job yet. `done` is called once, on a thread of the store. Errors: the
// store's.
void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<AcquiredRows>)> done);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
