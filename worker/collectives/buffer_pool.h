#ifndef FARANDOLE_WORKER_COLLECTIVES_BUFFER_POOL_H_
#define FARANDOLE_WORKER_COLLECTIVES_BUFFER_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace farandole {

// Memory for the working buffers of operations, kept for the next one. Owned by the engine and used by the thread that
// has its role; outlives its leases.
class BufferPool {
  struct Freed {
    void operator()(char* bytes) const;
  };
  struct Block {
    std::unique_ptr<char[], Freed> bytes;
    size_t capacity = 0;
  };

 public:
  // A buffer until it is dropped; an empty one has no memory.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    // Aligned to a cache line. Holds the bytes of the last user.
    char* data() const { return block_.bytes.get(); }

   private:
    friend class BufferPool;
    Lease(BufferPool* pool, Block block);

    BufferPool* pool_ = nullptr;
    Block block_;
  };

  // Keeps at most `most_kept_bytes` that are not leased, and frees first what came back longest ago.
  explicit BufferPool(size_t most_kept_bytes) : most_kept_bytes_(most_kept_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`; an empty lease for 0.
  Lease Take(size_t bytes);

  size_t kept_bytes() const { return kept_bytes_; }

 private:
  void Return(Block block);

  const size_t most_kept_bytes_;
  size_t kept_bytes_ = 0;
  // In the order in which they came back.
  std::vector<Block> kept_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_BUFFER_POOL_H_
