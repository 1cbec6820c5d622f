#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "worker/core/doorbell.h"
#include "worker/transport/shm/arena_table.h"
#include "worker/transport/shm/shm_layout.h"
#include "worker/transport/shm/stage_copier.h"
#include "worker/transport/transport.h"

namespace farandole {

// The transport between ranks of one host, through memory that all of them map (or that is private, if the ranks are
// threads of one process). Runs allreduce, broadcast and allgather natively: staged in chunks, reduced in the order of
// the ranks, so that results are equal to the bit on all ranks and from run to run. A rank writes into no memory of
// others except for its own stages and channels, and, if all tensors of a batch lie in an arena, its share of that.
class ShmTransport final : public Transport {
 public:
  // `memory`: ShmLayout::Bytes(bells.size()) bytes. `bells`: by rank. `arenas`: those that collectives name; null:
  // none. All outlive the transport.
  ShmTransport(void* memory, int rank, std::vector<Doorbell*> bells, const ArenaTable* arenas = nullptr);

  absl::string_view name() const override { return "shm"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(bells_.size()); }
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  absl::StatusOr<bool> Progress() override;
  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective) override;
  void Abort(absl::Status reason) override;

  // For the operations.
  ShmLayout& layout() { return layout_; }
  ShmLayout::Progress& progress(int rank) { return layout_.progress(rank); }
  absl::Status error() const;
  // Where chunk `chunk` of batch `sequence` lies in the stages of `rank`, where the batch takes slots of so many bytes.
  char* Stage(int rank, uint64_t sequence, uint64_t chunk, size_t slot_bytes = kStageBytes) {
    return layout_.stage(rank, layout_.slot_offset(sequence + chunk, slot_bytes));
  }
  // Whether this rank's stage for that chunk is read no more.
  bool StageIsFree(uint64_t sequence, uint64_t chunk, size_t slot_bytes = kStageBytes);
  // Says that the stage is used for that chunk, until all of `readers` have consumed it.
  void UseStage(uint64_t sequence, uint64_t chunk, absl::Span<const int> readers, size_t slot_bytes = kStageBytes);
  // Copies into this rank's stages.
  StageCopier& copier() { return copier_; }
  // Rings the bells of the other ranks.
  void Ring(absl::Span<const int> ranks);

  static uint64_t ProgressWord(uint64_t sequence, uint64_t chunks) { return sequence << 20 | chunks; }

 private:
  struct StageUse {
    uint64_t consumed = 0;  // the progress word that readers must reach
    absl::InlinedVector<int, 8> readers;
  };

  // The uses of the chunk's slot in the ring, in units of kLeastSlotBytes.
  absl::Span<StageUse> UsesOf(uint64_t sequence, uint64_t chunk, size_t slot_bytes);
  absl::StatusOr<std::unique_ptr<Operation>> StartInArena(const Collective& collective);
  bool MoveOut(int peer);
  bool MoveIn(int peer);

  ShmLayout layout_;
  const int rank_;
  const std::vector<Doorbell*> bells_;
  const ArenaTable* const arenas_;
  std::vector<StageUse> uses_;
  StageCopier copier_;
  // Transfers in progress, by peer, in the order of their start.
  std::vector<std::deque<Transfer*>> sends_;
  std::vector<std::deque<Transfer*>> receives_;
  mutable std::mutex error_mutex_;
  std::atomic<bool> failed_{false};
  absl::Status error_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_TRANSPORT_H_
