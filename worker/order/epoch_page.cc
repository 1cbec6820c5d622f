#include "worker/order/epoch_page.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text/utf8_text.h"
#include "worker/order/entry_bytes.h"

namespace farandole {
namespace {

constexpr size_t kCellPayload = 312;
static_assert(sizeof(Post) <= kCellPayload, "a post fits into a cell");
constexpr size_t kMostEndBytes = 448;

RendezvousRoom RoomOf(int size, EpochRings rings) {
  return rings.has_room ? RendezvousRoom::For(size) : RendezvousRoom();
}

uint64_t CellsFor(size_t bytes) { return (bytes + kCellPayload - 1) / kCellPayload; }

}  // namespace

// Each cell says which position of the ring it holds: position + 1, written last.
struct alignas(64) EpochPage::Cell {
  std::atomic<uint64_t> sequence;
  char bytes[kCellPayload];
};

struct EpochPage::RankBlock {
  Doorbell bell;
  // Written by rank 0: how many posts of this rank it has read.
  alignas(64) std::atomic<uint64_t> posts_read;
  std::atomic<uint32_t> has_left;
  // Written by the rank: how far it has read the log.
  alignas(64) std::atomic<uint64_t> log_read;
  // Written by rank 0, in its own block: the log is full, and a rank that reads on rings the bell.
  alignas(64) std::atomic<uint32_t> is_log_full;
  // Written by the rank's control thread.
  alignas(64) std::atomic<uint64_t> beat;
  std::atomic<int64_t> beat_ns;
  std::atomic<uint64_t> batches;
  std::atomic<uint32_t> is_attached;
  // Written by the rank, once: why the epoch has ended there; `end_code` last.
  alignas(64) std::atomic<uint32_t> end_code;
  uint32_t end_bytes;
  char end[kMostEndBytes];
  RankRecord record;
};

size_t EpochPage::Bytes(int size, EpochRings rings) {
  const size_t cells = size * rings.post_cells + rings.log_cells;
  return size * sizeof(RankBlock) + cells * sizeof(Cell) + Rendezvous::Bytes(size, RoomOf(size, rings));
}

EpochPage::EpochPage(void* memory, int rank, int size, int first_rank, EpochRings rings)
    : memory_(static_cast<char*>(memory)),
      rank_(rank),
      size_(size),
      first_rank_(first_rank),
      rings_(rings),
      posts_read_(size, 0),
      left_at_(size, ~uint64_t{0}) {
  static_assert(sizeof(Cell) == 320, "a cell is five cache lines");
  static_assert(kMostEntryBytes == EpochRings().log_cells / 2 * kCellPayload, "an entry takes half of the log at most");
  FD_CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0) << "the page must be aligned to cache lines";
  if (size < 2 || size > Rendezvous::kMostRanks) return;
  std::vector<Doorbell*> bells;
  for (int other = 0; other < size; ++other) bells.push_back(&bell(other));
  const RendezvousRoom room = RoomOf(size, rings);
  rendezvous_.emplace(memory_ + Bytes(size, rings) - Rendezvous::Bytes(size, room), rank, std::move(bells), room);
}

EpochPage::RankBlock& EpochPage::block(int rank) const { return reinterpret_cast<RankBlock*>(memory_)[rank]; }

EpochPage::Cell& EpochPage::post_cell(int rank, uint64_t position) const {
  Cell* cells = reinterpret_cast<Cell*>(memory_ + size_ * sizeof(RankBlock));
  return cells[rank * rings_.post_cells + (position & (rings_.post_cells - 1))];
}

EpochPage::Cell& EpochPage::log_cell(uint64_t position) const {
  Cell* cells = reinterpret_cast<Cell*>(memory_ + size_ * sizeof(RankBlock));
  return cells[size_ * rings_.post_cells + (position & (rings_.log_cells - 1))];
}

Doorbell& EpochPage::bell(int rank) { return block(rank).bell; }

bool EpochPage::SharesCpu() const {
  const int own = block(rank_).bell.cpu();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && block(rank).bell.cpu() == own) return own >= 0;
  }
  return false;
}

bool EpochPage::TryPost(const Post& post) {
  if (posted_ - known_read_ >= rings_.post_cells) {
    known_read_ = block(rank_).posts_read.load();
    if (posted_ - known_read_ >= rings_.post_cells) return false;
  }
  Cell& cell = post_cell(rank_, posted_);
  const size_t head = sizeof(PostHeader);
  std::memcpy(cell.bytes, static_cast<const void*>(&post), head);
  std::memcpy(cell.bytes + head, post.payload, post.payload_bytes);
  cell.sequence.store(++posted_);
  if (rank_ != 0) {
    // A normal post matters to rank 0 only once it has submitted as well; leaving and joining it must see at once.
    post.kind == Post::Kind::kSubmit ? bell(0).Ring() : bell(0).Summon();
  }
  return true;
}

bool EpochPage::ReadPost(int rank, Post* post) {
  uint64_t& read = posts_read_[rank];
  Cell& cell = post_cell(rank, read);
  if (cell.sequence.load() != read + 1) return false;
  const size_t head = sizeof(PostHeader);
  std::memcpy(static_cast<void*>(post), cell.bytes, head);
  std::memcpy(post->payload, cell.bytes + head, std::min<size_t>(post->payload_bytes, kInlineBytes));
  block(rank).posts_read.store(++read);
  // The ring was full if the cell before the one that was read holds the latest post that fits.
  if (post_cell(rank, read - 2 + rings_.post_cells).sequence.load() == read - 1 + rings_.post_cells)
    bell(rank).Summon();
  return true;
}

bool EpochPage::LogHasRoom(uint64_t cells) {
  if (appended_ + cells - all_read_ <= rings_.log_cells) return true;
  uint64_t least = appended_;
  for (int rank = 0; rank < size_; ++rank) {
    const uint64_t read = block(rank).log_read.load();
    if (read < left_at_[rank] || rank == rank_) least = std::min(least, read);
  }
  all_read_ = least;
  return appended_ + cells - all_read_ <= rings_.log_cells;
}

bool EpochPage::TryAppend(Entry& entry, absl::Span<const int> concerned) {
  const EntryParts parts(entry);
  const uint64_t cells = CellsFor(parts.bytes());
  FD_CHECK_LE(cells, rings_.log_cells / 2) << "an entry must fit into the log";
  std::atomic<uint32_t>& is_log_full = block(rank_).is_log_full;
  if (!LogHasRoom(cells)) {
    // Said before the last look, so that a rank that reads on meanwhile is seen, or sees it.
    is_log_full.store(1);
    if (!LogHasRoom(cells)) {
      for (int rank = 0; rank < size_; ++rank) bell(rank).Summon();
      return false;
    }
  }
  if (is_log_full.load() != 0) is_log_full.store(0);
  size_t offset = 0;
  for (const EntryParts::Part& part : parts) {
    const char* from = static_cast<const char*>(part.data);
    for (size_t left = part.bytes; left > 0;) {
      size_t within = offset % kCellPayload;
      size_t piece = std::min(left, kCellPayload - within);
      std::memcpy(log_cell(appended_ + offset / kCellPayload).bytes + within, from, piece);
      from += piece;
      offset += piece;
      left -= piece;
    }
  }
  for (uint64_t cell = cells; cell-- > 0;) log_cell(appended_ + cell).sequence.store(appended_ + cell + 1);
  entry.sequence = appended_ + 1;
  appended_ += cells;
  const int rank_on_page = entry.rank - first_rank_;
  if (entry.kind == Entry::Kind::kLeft && 0 <= rank_on_page && rank_on_page < size_) {
    left_at_[rank_on_page] = appended_;
    block(rank_on_page).has_left.store(1);
  }
  const bool urgent = entry.kind == Entry::Kind::kLeft;
  for (int rank : concerned) {
    if (rank == rank_) continue;
    urgent ? bell(rank).Summon() : bell(rank).Ring();
  }
  return true;
}

bool EpochPage::ReadEntry(Entry* entry) {
  Cell& first = log_cell(read_);
  if (first.sequence.load() != read_ + 1) return false;
  size_t offset = 0;
  auto copy = [&](void* to, size_t bytes) {
    char* out = static_cast<char*>(to);
    while (bytes > 0) {
      size_t within = offset % kCellPayload;
      size_t piece = std::min(bytes, kCellPayload - within);
      std::memcpy(out, log_cell(read_ + offset / kCellPayload).bytes + within, piece);
      out += piece;
      offset += piece;
      bytes -= piece;
    }
  };
  EntryHead head;
  copy(&head, sizeof(head));
  entry->sequence = read_ + 1;
  ReadBehind(head, copy, entry);
  read_ += CellsFor(offset);
  block(rank_).log_read.store(read_);
  if (rank_ != 0 && block(0).is_log_full.load() != 0) bell(0).Summon();
  return true;
}

// Read the positions from the shared words, since the members belong to the holder of the engine's role.
bool EpochPage::HasEntry() const {
  const uint64_t read = block(rank_).log_read.load();
  return log_cell(read).sequence.load() == read + 1;
}

bool EpochPage::HasPosts() const {
  for (int rank = 0; rank < size_; ++rank) {
    const uint64_t posts_read = block(rank).posts_read.load();
    if (post_cell(rank, posts_read).sequence.load() == posts_read + 1) return true;
  }
  return false;
}

bool EpochPage::HasNews() const { return HasEntry() || (rank_ == 0 && HasPosts()); }

bool EpochPage::IsNeeded() const {
  if (rank_ != 0) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if (!HasLeft(rank)) return true;
  }
  return false;
}

bool EpochPage::HasLeft(int rank) const { return block(rank).has_left.load() != 0; }

void EpochPage::Beat(const Pulse& pulse) {
  RankBlock& own = block(rank_);
  own.batches.store(pulse.batches);
  own.is_attached.store(pulse.is_attached ? 1 : 0);
  own.beat_ns.store(pulse.beat_ns);
  own.beat.store(pulse.beat);
}

ReadyChannel::Pulse EpochPage::ReadPulse(int rank) const {
  const RankBlock& other = block(rank);
  const uint64_t beat = other.beat.load();
  return {beat, other.beat_ns.load(), other.batches.load(), other.is_attached.load() != 0};
}

RankRecord* EpochPage::record(int rank) const { return &block(rank).record; }

void EpochPage::StateEnd(const absl::Status& reason) {
  RankBlock& own = block(rank_);
  const absl::string_view kept = CutUtf8(reason.message(), kMostEndBytes);
  own.end_bytes = static_cast<uint32_t>(kept.size());
  std::memcpy(own.end, kept.data(), kept.size());
  own.end_code.store(static_cast<uint32_t>(reason.code()));
}

absl::Status EpochPage::StatedEnd(int rank) const {
  const RankBlock& other = block(rank);
  const uint32_t code = other.end_code.load();
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), absl::string_view(other.end, other.end_bytes));
}

}  // namespace farandole
