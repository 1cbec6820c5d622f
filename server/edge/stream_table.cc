#include "server/edge/stream_table.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "server/edge/attach_stream.h"

namespace farandole {

absl::StatusOr<StreamId> StreamTable::Add(const std::string& tenant, size_t max_streams,
                                          std::shared_ptr<AttachStream> stream) {
  absl::MutexLock lock(&mutex_);
  size_t& count = count_by_tenant_[tenant];
  if (count >= max_streams) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant ", tenant, " has ", count, " streams open, at most ", max_streams, " may be"));
  }
  ++count;
  streams_.emplace(++last_, Entry{tenant, std::move(stream)});
  return last_;
}

void StreamTable::Remove(StreamId id) {
  std::shared_ptr<AttachStream> removed;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    const auto count = count_by_tenant_.find(found->second.tenant);
    if (--count->second == 0) count_by_tenant_.erase(count);
    removed = std::move(found->second.stream);
    streams_.erase(found);
  }
  // Between its look at the streams and its wait a waiter holds this.
  const std::lock_guard<std::mutex> lock(waiting_mutex_);
  changed_.notify_all();
}

std::shared_ptr<AttachStream> StreamTable::Find(StreamId id) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.stream;
}

std::vector<std::shared_ptr<AttachStream>> StreamTable::All() const {
  std::vector<std::shared_ptr<AttachStream>> open;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [id, entry] : streams_) open.push_back(entry.stream);
  return open;
}

void StreamTable::CloseAll(const absl::Status& status) {
  for (const std::shared_ptr<AttachStream>& stream : All()) stream->Close(status);
}

void StreamTable::CheckStanding() {
  for (const std::shared_ptr<AttachStream>& stream : All()) stream->CheckStanding();
}

bool StreamTable::WaitUntilEmpty(absl::Time deadline) {
  std::unique_lock<std::mutex> lock(waiting_mutex_);
  deadline_ = std::min(deadline_, deadline);
  changed_.notify_all();
  while (!IsEmpty() && SteadyNow() < deadline_) changed_.wait_until(lock, ToSteadyClock(deadline_));
  return IsEmpty();
}

bool StreamTable::IsEmpty() const {
  absl::ReaderMutexLock lock(&mutex_);
  return streams_.empty();
}

}  // namespace farandole
