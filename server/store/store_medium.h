#ifndef FARANDOLE_SERVER_STORE_STORE_MEDIUM_H_
#define FARANDOLE_SERVER_STORE_STORE_MEDIUM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/store/store.h"

namespace farandole {

// Where a GroupCommitStore keeps its rows. Owned by that store and called by its thread only; calls may block.
class StoreMedium {
 public:
  virtual ~StoreMedium() = default;

  // Writes all batches in their order, all or none of them, durable on return.
  // UNAVAILABLE: not written, as far as the medium knows; nothing is written until Recover has succeeded.
  virtual absl::Status Write(absl::Span<const StoreBatch> batches) = 0;

  // The value of `key`; nullopt: there is no such row. UNAVAILABLE: the medium cannot be read.
  virtual absl::StatusOr<std::optional<std::string>> Get(const std::string& key) = 0;

  // The first `most` rows whose key starts with `prefix` and is behind `after`, in the order of the keys. UNAVAILABLE:
  // the medium cannot be read.
  virtual absl::StatusOr<std::vector<StoreRow>> Scan(const std::string& prefix, const std::string& after,
                                                     size_t most) = 0;

  // About how many bytes the rows take whose key starts with `prefix`. UNAVAILABLE: the medium cannot be read.
  virtual absl::StatusOr<uint64_t> Measure(const std::string& prefix) = 0;

  // After a failed Write: makes the medium writable again. UNAVAILABLE: it still is not.
  virtual absl::Status Recover() = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_STORE_MEDIUM_H_
