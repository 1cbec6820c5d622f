#include "server/queue/queue_rows.h"

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "server/store/store_wait.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr char kOwner[] = "queue";
constexpr char kPrefix[] = "queue/";
constexpr absl::Duration kBetweenTries = absl::Seconds(1);
// Of a batch; a row has no more than a few KiB (bounds.h).
constexpr size_t kMostBytes = kMaxBatchBytes / 2;

std::string RowKeyOf(const JobKey& key) { return absl::StrCat(kPrefix, key.Text()); }

}  // namespace

QueueRows::~QueueRows() { Stop(); }

void QueueRows::Stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  idle_.wait(lock, [this] { return !is_writing_ && !is_telling_; });
}

absl::StatusOr<std::vector<v1::QueuedRecord>> QueueRows::Load() {
  const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store_, kPrefix);
  if (!rows.ok()) return rows.status();
  std::vector<v1::QueuedRecord> records;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const StoreRow& row : *rows) {
    if (!records.emplace_back().ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a QueuedRecord"));
    kept_.insert(row.key);
  }
  return records;
}

void QueueRows::Put(const JobKey& key, const v1::QueuedRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    due_[RowKeyOf(key)] = Row{record.SerializeAsString(), ++last_version_};
  }
  Write();
}

void QueueRows::Delete(const JobKey& key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    due_[RowKeyOf(key)] = Row{std::nullopt, ++last_version_};
  }
  Write();
}

bool QueueRows::IsKept(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_.count(RowKeyOf(key)) > 0;
}

absl::Status QueueRows::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

absl::Time QueueRows::next_try() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return due_.empty() || is_writing_ ? absl::InfiniteFuture() : try_at_;
}

void QueueRows::Write() {
  StoreBatch batch;
  std::map<std::string, Row> written;
  uint64_t revision = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_writing_ || is_stopped_ || due_.empty() || SteadyNow() < try_at_) return;
    is_writing_ = true;
    revision = revision_;
    size_t bytes = 0;
    for (const auto& [key, row] : due_) {
      bytes += key.size() + (row.value.has_value() ? row.value->size() : 0);
      if (written.size() == kMaxBatchOperations || bytes > kMostBytes) break;
      written[key] = row;
      if (row.value.has_value()) {
        batch.puts.push_back({key, *row.value});
      } else {
        batch.deletes.push_back(key);
      }
    }
  }
  if (revision == 0)
    return store_->Acquire(kOwner, [this](absl::StatusOr<uint64_t> acquired) { OnAcquired(std::move(acquired)); });
  store_->Commit(kOwner, revision, std::move(batch),
                 [this, written](const absl::Status& status) { OnWritten(written, status); });
}

void QueueRows::OnAcquired(absl::StatusOr<uint64_t> revision) {
  if (revision.ok()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      revision_ = *revision;
      is_writing_ = false;
      idle_.notify_all();
    }
    Write();
    return;
  }
  End(revision.status());
}

void QueueRows::OnWritten(const std::map<std::string, Row>& written, const absl::Status& status) {
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, row] : written) {
      if (row.value.has_value()) {
        kept_.insert(key);
      } else {
        kept_.erase(key);
      }
      // A row that was asked for anew meanwhile is written once more.
      const auto due = due_.find(key);
      if (due != due_.end() && due->second.version == row.version) due_.erase(due);
    }
  }
  End(status);
}

void QueueRows::End(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok()) {
      if (failure_.ok()) spdlog::error("the queue of launches cannot be written: {}", std::string(status.message()));
      revision_ = 0;
      try_at_ = SteadyNow() + kBetweenTries;
    } else if (!failure_.ok()) {
      spdlog::info("the queue of launches is written again");
    }
    failure_ = status;
    is_writing_ = false;
    is_telling_ = true;
  }
  on_change_();
  const std::lock_guard<std::mutex> lock(mutex_);
  is_telling_ = false;
  idle_.notify_all();
}

}  // namespace farandole
