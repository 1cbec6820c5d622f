#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_QUEUE_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace farandole {

// Bytes on their way from one rank to another in the same process. One thread writes and one reads at a time, without
// locks; neither waits. The writer publishes sequentially consistently, as Doorbell wants it.
class InprocQueue {
 public:
  InprocQueue() : bytes_(new char[kCapacity]) {}
  InprocQueue(const InprocQueue&) = delete;
  InprocQueue& operator=(const InprocQueue&) = delete;

  // Writer: takes as many of the bytes as there is room for, and says how many.
  size_t Write(const void* bytes, size_t count);
  size_t room() const { return kCapacity - (written_.load() - read_.load()); }
  // Reader: gives as many bytes as there are, up to `count`, and says how many.
  size_t Read(void* bytes, size_t count);
  size_t available() const { return written_.load() - read_.load(); }

 private:
  // A power of two, half of a core's second-level cache on small machines.
  static constexpr size_t kCapacity = 128 << 10;

  const std::unique_ptr<char[]> bytes_;
  // Totals, each written by one side; on lines of their own, since the other side polls them.
  alignas(64) std::atomic<uint64_t> written_{0};
  alignas(64) std::atomic<uint64_t> read_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_QUEUE_H_
