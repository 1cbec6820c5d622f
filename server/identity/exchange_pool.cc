#include "server/identity/exchange_pool.h"

#include "base/quiet_thread.h"
#include "base/text/client_network.h"

namespace farandole {

ExchangePool::ExchangePool(const Bounds& bounds) : bounds_(bounds) {
  for (size_t i = 0; i < bounds_.threads; ++i) threads_.push_back(QuietThread([this] { Run(); }));
}

ExchangePool::~ExchangePool() { Stop(); }

void ExchangePool::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool ExchangePool::Add(const std::string& peer, std::function<void()> task) {
  const std::string address = ClientNetwork(peer);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = of_address_.find(address);
  if (is_stopping_ || count_ >= bounds_.most || (own != of_address_.end() && own->second >= bounds_.most_of_address))
    return false;
  ++count_;
  ++of_address_[address];
  waiting_.emplace_back(address, std::move(task));
  changed_.notify_one();
  return true;
}

void ExchangePool::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return is_stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto [address, task] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    --count_;
    const auto own = of_address_.find(address);
    if (--own->second == 0) of_address_.erase(own);
  }
}

}  // namespace farandole
