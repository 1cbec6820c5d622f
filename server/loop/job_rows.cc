#include "server/loop/job_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

std::string JobRowKey(const JobKey& key) { return absl::StrCat("job/", key.Text()); }

void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<AcquiredRows>)> done) {
  store->AcquireRows(key.Text(), {JobRowKey(key), absl::StrCat("members/", key.Text())},
                     {absl::StrCat("checkpoint/", key.Text(), "/"), absl::StrCat("grant/", key.Text(), "/")},
                     std::move(done));
}

}  // namespace farandole
