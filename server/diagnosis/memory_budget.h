#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace farandole {

// The bytes that the measurements of all jobs of a coordinator may take. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : left_(bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False: so many are not left, and none are taken.
  bool Take(int64_t bytes) {
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_.fetch_add(bytes);
    return false;
  }
  void Return(int64_t bytes) { left_.fetch_add(bytes); }
  int64_t left() const { return left_.load(); }

 private:
  std::atomic<int64_t> left_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_
