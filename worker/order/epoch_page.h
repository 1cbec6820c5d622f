#ifndef FARANDOLE_WORKER_ORDER_EPOCH_PAGE_H_
#define FARANDOLE_WORKER_ORDER_EPOCH_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "worker/order/ready_channel.h"

namespace farandole {

// Cells of each rank's ring of posts, and of the log: powers of two. A simulation has few, so that they are full at
// times.
struct EpochRings {
  // More than a step of a large model submits; a rank that has more queues them in its own memory.
  uint64_t post_cells = 1024;
  // Some 40 fused batches of 1,024 items, or 2,048 small results.
  uint64_t log_cells = 2048;
  // Whether the rendezvous has room for more than kInlineBytes.
  bool has_room = true;
};

// Readiness and order through memory that all ranks of a host map: one ring of posts per rank, which that rank writes
// and rank 0 reads, and one log, which rank 0 writes and all read. Every word has a single writer. The memory is zero
// at first and outlives the object; it may be private where all ranks are threads of one process.
//
// Ranks here count from 0 on each page: page rank 0 is the epoch's rank `first_rank`. Only Entry.rank is a rank of the
// epoch. If the epoch has one host, both are the same.
class EpochPage final : public ReadyChannel {
 public:
  // Bytes that the page needs for `size` ranks.
  static size_t Bytes(int size, EpochRings rings = EpochRings());
  // `rings` is the same for all ranks of the page.
  EpochPage(void* memory, int rank, int size, int first_rank = 0, EpochRings rings = EpochRings());
  // Entries of more bytes do not fit into a log of the usual size.
  static constexpr size_t kMostEntryBytes = 312 << 10;

  bool TryPost(const Post& post) override;
  bool ReadEntry(Entry* entry) override;
  bool HasNews() const override;
  bool ReadPost(int rank, Post* post) override;
  bool TryAppend(Entry& entry, absl::Span<const int> concerned) override;
  bool HasLeft(int rank) const override;
  // Rank 0: until all have left.
  bool IsNeeded() const override;
  Doorbell& doorbell() override { return bell(rank_); }
  bool SharesCpu() const override;
  Rendezvous* rendezvous() override { return rendezvous_.has_value() ? &*rendezvous_ : nullptr; }
  void Beat(const Pulse& pulse) override;
  Pulse ReadPulse(int rank) const override;
  RankRecord* record(int rank) const override;
  // At most the first 448 bytes of the sentence.
  void StateEnd(const absl::Status& reason) override;
  absl::Status StatedEnd(int rank) const override;

  // A peer's bell, for transports that share the page.
  Doorbell& bell(int rank);
  // The two kinds of news.
  bool HasEntry() const;
  bool HasPosts() const;

 private:
  struct Cell;
  struct RankBlock;
  RankBlock& block(int rank) const;
  Cell& post_cell(int rank, uint64_t position) const;
  Cell& log_cell(uint64_t position) const;
  bool LogHasRoom(uint64_t cells);

  char* const memory_;
  const int rank_;
  const int size_;
  const int first_rank_;
  const EpochRings rings_;
  std::optional<Rendezvous> rendezvous_;
  // This rank's positions; counted in cells from the epoch's start.
  uint64_t posted_ = 0;
  // How many of its posts it knows to be read; looked up only where the ring seems full, as rank 0 writes the word with
  // every post that it reads.
  uint64_t known_read_ = 0;
  uint64_t read_ = 0;
  // Rank 0: what it has read of each rank's posts and appended to the log, and the least position that all ranks are
  // known to have read.
  absl::InlinedVector<uint64_t, 8> posts_read_;
  uint64_t appended_ = 0;
  uint64_t all_read_ = 0;
  // Rank 0: for each rank, the position behind the entry that it has left; that rank reads no further.
  absl::InlinedVector<uint64_t, 8> left_at_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_EPOCH_PAGE_H_
