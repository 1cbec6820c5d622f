#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_LAYOUT_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farandole {

// A rank copies its data into its stages in chunks, and peers read it there. The stages of a rank are a ring
// of slots; an operation chooses how large its slots are, a power of two between these bounds. 256 KiB stay in the
// second-level cache.
inline constexpr size_t kStageBytes = 256 << 10;
inline constexpr size_t kLeastSlotBytes = 16 << 10;
// A channel from one rank to another for Send and Receive.
inline constexpr size_t kChannelBytes = 64 << 10;

// The memory of a ShmTransport, which all ranks of an epoch on one host map. Zero at first. Every word has one writer.
// Progress words hold batch sequence * 2^20 + chunks done in that batch, so they only grow.
class ShmLayout {
 public:
  struct Progress {
    // Chunks in this rank's stages, that others may read.
    alignas(64) std::atomic<uint64_t> staged;
    // Chunks of which this rank has reduced its share.
    alignas(64) std::atomic<uint64_t> reduced;
    // Chunks that this rank needs no more from any stage.
    alignas(64) std::atomic<uint64_t> consumed;
  };
  struct Channel {
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> read;
    alignas(64) char bytes[kChannelBytes];
  };

  // The bytes of a rank's ring. A slot is used again when its lines have left the caches of its readers, if the ring is
  // large: to write a line that a peer's cache holds takes four times as long (64 KiB between two ranks: 9.5 us in a
  // ring of 128 KiB, 5.3 in 1 MiB, 3.5 in 2 MiB). Four chunks at least, so that a rank can be ahead of its slowest
  // reader.
  static constexpr size_t RingBytes(int size) { return (size <= 2 ? 8 : 4) * kStageBytes; }

  static size_t Bytes(int size) {
    return size * sizeof(Progress) + size * RingBytes(size) + static_cast<size_t>(size) * size * sizeof(Channel);
  }

  // `memory` is aligned to a page and outlives the layout.
  ShmLayout(void* memory, int size) : memory_(static_cast<char*>(memory)), size_(size) {}

  Progress& progress(int rank) const { return reinterpret_cast<Progress*>(memory_)[rank]; }
  // Where slot `number` of so many bytes begins in its rank's ring.
  size_t slot_offset(uint64_t number, size_t slot_bytes) const { return number * slot_bytes % RingBytes(size_); }
  char* stage(int rank, size_t offset) const {
    return memory_ + size_ * sizeof(Progress) + rank * RingBytes(size_) + offset;
  }
  Channel& channel(int from, int to) const {
    char* channels = stage(size_, 0);
    return reinterpret_cast<Channel*>(channels)[from * size_ + to];
  }

 private:
  char* memory_;
  int size_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_LAYOUT_H_
