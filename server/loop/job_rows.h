#ifndef FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
#define FARANDOLE_SERVER_LOOP_JOB_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/registry/job_key.h"
#include "server/store/store.h"

namespace farandole {

// A job's rows in the store, and the revision under which they may be written from now on.
struct JobRows {
  uint64_t owner_revision = 0;
  // All rows of the job, as proto/farandole/v1/store.proto lists them; empty: there is no such job yet.
  std::vector<StoreRow> rows;
};

// The key of the job's JobRecord.
std::string JobRowKey(const JobKey& key);

// Takes the job over from its last owner, then reads its rows: no earlier owner can write between the two. `done` is
// called once, on a thread of the store. Errors: the store's.
void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<JobRows>)> done);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_ROWS_H_
