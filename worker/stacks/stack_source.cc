#include "worker/stacks/stack_source.h"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole {
namespace {

constexpr size_t kMostBytes = 256 << 10;

}  // namespace

void StackSource::Set(const Ways& ways) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ways_ = ways;
}

bool StackSource::is_set() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ways_.read != nullptr;
}

uint64_t StackSource::main_thread() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ways_.main_thread;
}

void StackSource::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ways_.read == nullptr) return;
  if (reading_ != nullptr) {
    const std::lock_guard<std::mutex> its_lock(reading_->mutex);
    if (!reading_->is_over) return;
  }
  reading_ = std::make_shared<Reading>();
  // Detached: it may wait for the interpreter's lock until the process ends.
  QuietThread([reading = reading_, read = ways_.read] {
    std::string text(kMostBytes, '\0');
    const int64_t bytes = read(text.data(), static_cast<int64_t>(text.size()));
    text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
    const std::lock_guard<std::mutex> lock(reading->mutex);
    reading->text = std::move(text);
    reading->is_over = true;
  }).detach();
}

std::optional<std::string> StackSource::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (reading_ == nullptr) return std::nullopt;
  const std::lock_guard<std::mutex> its_lock(reading_->mutex);
  if (!reading_->is_over) return std::nullopt;
  return reading_->text;
}

std::string StackSource::ReadWithoutLock() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ways_.signal == 0 || ways_.fd < 0) return "";
  struct sigaction action = {};
  if (sigaction(ways_.signal, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0) return "";
  // The program may have set another handler since.
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return "";
  if (ftruncate(ways_.fd, 0) != 0 || lseek(ways_.fd, 0, SEEK_SET) != 0) return "";
  action.sa_handler(ways_.signal);
  std::string text(kMostBytes, '\0');
  const ssize_t bytes = pread(ways_.fd, text.data(), text.size(), 0);
  text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return text;
}

}  // namespace farandole
