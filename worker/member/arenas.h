#ifndef FARANDOLE_WORKER_MEMBER_ARENAS_H_
#define FARANDOLE_WORKER_MEMBER_ARENAS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/engine.h"
#include "worker/member/connections.h"
#include "worker/transport/shm/arena.h"
#include "worker/transport/shm/arena_table.h"

namespace farandole {

// Makes the arenas of one rank in one epoch, together with the other ranks. Owned by the worker, and outlived by the
// arenas. Thread-safe.
class Arenas {
 public:
  // All outlive it. `who` names ranks.
  Arenas(ArenaTable* table, Connections* connections, Engine* engine, std::vector<std::string> who);

  // As farandole_arena_create.
  absl::StatusOr<std::shared_ptr<const Arena>> Create(const std::string& name, int64_t bytes, uint32_t group,
                                                      const std::function<bool()>& interrupted);

 private:
  // Three numbers of each rank of a group, one after the other.
  static constexpr int kStatements = 3;
  // FAILED_PRECONDITION: not all ranks of the group, `ranks` of them, take part, as some have joined.
  absl::StatusOr<std::vector<int64_t>> Exchange(const std::string& name, uint32_t group, size_t ranks,
                                                std::vector<int64_t> own, const std::function<bool()>& interrupted);
  absl::Status CheckBytes(const std::string& name, absl::Span<const int> ranks, absl::Span<const int64_t> stated) const;
  absl::StatusOr<std::unique_ptr<EpochMemory>> Map(absl::Span<const int> ranks, std::unique_ptr<EpochMemory> own,
                                                   int64_t bytes, const std::function<bool()>& interrupted);

  ArenaTable* const table_;
  Connections* const connections_;
  Engine* const engine_;
  const std::vector<std::string> who_;
  std::mutex mutex_;  // one arena at a time
  int64_t made_ = 0;
  // Buffers that the engine has borrowed for waits that were given up.
  std::vector<std::vector<int64_t>> lent_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_ARENAS_H_
