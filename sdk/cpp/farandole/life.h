#ifndef FARANDOLE_SDK_CPP_FARANDOLE_LIFE_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_LIFE_H_

#include <atomic>
#include <cstdint>

#include "farandole/library.h"

namespace farandole {
inline namespace sdk {

/// One of the process's lives as a worker, from Init() to Shutdown(). The latest is present until it ends. Objects that
/// speak for a life hold it, so that they do nothing to a later one. A value: copies mean the same life. Any thread.
class Life {
 public:
  /// One that is over.
  Life() = default;
  /// Begins the next one: those before it are over.
  static Life Begin(const Functions& functions) {
    Life begun;
    begun.functions_ = &functions;
    begun.number_ = Last().fetch_add(1) + 1;
    begun.present_ = &Present();
    begun.present_->store(begun.number_);
    return begun;
  }

  bool is_present() const { return present_ != nullptr && number_ == present_->load(std::memory_order_relaxed); }
  /// The library's; those that refuse where the life is over.
  const Functions& functions() const { return is_present() ? *functions_ : RefusingFunctions(); }
  /// Ends it, if it is present.
  void End() const {
    int64_t number = number_;
    if (present_ != nullptr) present_->compare_exchange_strong(number, kNone);
  }

 private:
  static constexpr int64_t kNone = 0;

  static std::atomic<int64_t>& Last() {
    static std::atomic<int64_t> last{kNone};
    return last;
  }
  static std::atomic<int64_t>& Present() {
    static std::atomic<int64_t> present{kNone};
    return present;
  }

  const Functions* functions_ = nullptr;
  // Of the shared object that has begun it, which may have variables of its own.
  std::atomic<int64_t>* present_ = nullptr;
  int64_t number_ = kNone;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_LIFE_H_
