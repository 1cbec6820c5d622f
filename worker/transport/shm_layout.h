#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_LAYOUT_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farandole {

// A rank's stages: what it has to say is copied into them in chunks, and peers read it there. 256 KiB stay in the
// second-level cache; four let a rank be ahead of its slowest reader.
inline constexpr size_t kStageBytes = 256 << 10;
inline constexpr int kStages = 4;
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

  static size_t Bytes(int size) {
    return size * sizeof(Progress) + size * kStages * kStageBytes + static_cast<size_t>(size) * size * sizeof(Channel);
  }

  // `memory` is aligned to a page and outlives the layout.
  ShmLayout(void* memory, int size) : memory_(static_cast<char*>(memory)), size_(size) {}

  Progress& progress(int rank) const { return reinterpret_cast<Progress*>(memory_)[rank]; }
  char* stage(int rank, uint64_t number) const {
    return memory_ + size_ * sizeof(Progress) + (rank * kStages + number % kStages) * kStageBytes;
  }
  Channel& channel(int from, int to) const {
    char* channels = memory_ + size_ * sizeof(Progress) + size_ * kStages * kStageBytes;
    return reinterpret_cast<Channel*>(channels)[from * size_ + to];
  }

 private:
  char* memory_;
  int size_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_LAYOUT_H_
