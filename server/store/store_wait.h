#ifndef FARANDOLE_SERVER_STORE_STORE_WAIT_H_
#define FARANDOLE_SERVER_STORE_STORE_WAIT_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace farandole {

// The store's calls for a thread that has nothing to do before the answer: the coordinator's start, the sweeper, and
// tests. Never on a thread of the store.
inline absl::StatusOr<uint64_t> AcquireAndWait(Store* store, std::string owner) {
  std::promise<absl::StatusOr<uint64_t>> answer;
  store->Acquire(std::move(owner), [&](absl::StatusOr<uint64_t> revision) { answer.set_value(std::move(revision)); });
  return answer.get_future().get();
}

inline absl::StatusOr<uint64_t> MeasureAndWait(Store* store, std::vector<std::string> prefixes) {
  std::promise<absl::StatusOr<uint64_t>> answer;
  store->Measure(std::move(prefixes), [&](absl::StatusOr<uint64_t> bytes) { answer.set_value(std::move(bytes)); });
  return answer.get_future().get();
}

inline absl::Status CommitAndWait(Store* store, std::string owner, uint64_t owner_revision, StoreBatch batch) {
  std::promise<absl::Status> answer;
  store->Commit(std::move(owner), owner_revision, std::move(batch),
                [&](absl::Status status) { answer.set_value(std::move(status)); });
  return answer.get_future().get();
}

inline absl::StatusOr<std::vector<StoreRow>> ScanPageAndWait(Store* store, std::string prefix, std::string after,
                                                             size_t most) {
  std::promise<absl::StatusOr<std::vector<StoreRow>>> answer;
  store->ScanPage(std::move(prefix), std::move(after), most,
                  [&](absl::StatusOr<std::vector<StoreRow>> rows) { answer.set_value(std::move(rows)); });
  return answer.get_future().get();
}

inline absl::StatusOr<std::vector<StoreRow>> ScanAndWait(Store* store, std::string prefix) {
  std::promise<absl::StatusOr<std::vector<StoreRow>>> answer;
  store->Scan(std::move(prefix),
              [&](absl::StatusOr<std::vector<StoreRow>> rows) { answer.set_value(std::move(rows)); });
  return answer.get_future().get();
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_STORE_WAIT_H_
