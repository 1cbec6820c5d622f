#include "server/loop/job_rows.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// One acquisition on its way: shared by the callbacks of its store calls, which follow each other.
struct Acquisition {
  Store* store;
  std::string row_key;
  std::string members_key;
  std::vector<std::string> prefixes;
  size_t next_prefix = 0;
  JobRows found;
  std::function<void(absl::StatusOr<JobRows>)> done;
};

void ScanNext(const std::shared_ptr<Acquisition>& acquisition) {
  if (acquisition->next_prefix == acquisition->prefixes.size()) {
    acquisition->done(std::move(acquisition->found));
    return;
  }
  const std::string prefix = acquisition->prefixes[acquisition->next_prefix++];
  acquisition->store->Scan(prefix, [acquisition](absl::StatusOr<std::vector<StoreRow>> rows) {
    if (!rows.ok()) {
      acquisition->done(rows.status());
      return;
    }
    for (StoreRow& row : *rows) {
      // The prefixes of the job's own rows are also those of jobs with a longer name.
      if (absl::StartsWith(row.key, "job/") && row.key != acquisition->row_key) continue;
      if (absl::StartsWith(row.key, "members/") && row.key != acquisition->members_key) continue;
      acquisition->found.rows.push_back(std::move(row));
    }
    ScanNext(acquisition);
  });
}

}  // namespace

std::string JobRowKey(const JobKey& key) { return absl::StrCat("job/", key.Text()); }

void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<JobRows>)> done) {
  const std::string row_key = JobRowKey(key);
  auto acquisition = std::make_shared<Acquisition>();
  acquisition->store = store;
  acquisition->row_key = row_key;
  acquisition->members_key = absl::StrCat("members/", key.Text());
  acquisition->prefixes = {row_key, acquisition->members_key, absl::StrCat("checkpoint/", key.Text(), "/"),
                           absl::StrCat("grant/", key.Text(), "/")};
  acquisition->done = std::move(done);
  store->Acquire(key.Text(), [acquisition](absl::StatusOr<uint64_t> revision) {
    if (!revision.ok()) {
      acquisition->done(revision.status());
      return;
    }
    acquisition->found.owner_revision = *revision;
    ScanNext(acquisition);
  });
}

}  // namespace farandole
