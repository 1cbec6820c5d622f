#include "web/writer/reply_writer.h"

#include <unistd.h>

#include <tuple>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole {
namespace {

// Behind the edge's own thread, which serves everybody.
constexpr int kNiceness = 15;

}  // namespace

ReplyWriter::ReplyWriter(int threads) {
  for (int i = 0; i < threads; ++i) threads_.push_back(QuietThread([this] { Run(); }));
}

ReplyWriter::~ReplyWriter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ReplyWriter::Add(const std::string& tenant, std::function<void()> write) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [own, is_first] = waiting_.try_emplace(tenant);
  own->second.push_back(std::move(write));
  if (!is_first) return;
  turns_.push_back(tenant);
  changed_.notify_one();
}

void ReplyWriter::Run() {
  // Of this thread alone, as Linux has it; to step back is always allowed.
  std::ignore = nice(kNiceness);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return is_stopping_ || !turns_.empty(); });
    if (is_stopping_) return;
    const std::string tenant = std::move(turns_.front());
    turns_.pop_front();
    const auto own = waiting_.find(tenant);
    std::function<void()> write = std::move(own->second.front());
    own->second.pop_front();
    lock.unlock();
    write();
    write = nullptr;
    lock.lock();
    if (own->second.empty()) {
      waiting_.erase(own);
    } else {
      turns_.push_back(tenant);
      changed_.notify_one();
    }
  }
}

}  // namespace farandole
