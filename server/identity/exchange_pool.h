#ifndef FARANDOLE_SERVER_IDENTITY_EXCHANGE_POOL_H_
#define FARANDOLE_SERVER_IDENTITY_EXCHANGE_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace farandole {

// A few threads that wait for others' answers, so that no serving thread does. The tasks that strangers can cause
// have bounds: of one ClientNetwork, and of all. Owned by the one that adds work; any thread.
class ExchangePool {
 public:
  struct Bounds {
    size_t threads = 4;
    // Under way or waiting.
    size_t most = 32;
    size_t most_of_address = 2;
  };
  explicit ExchangePool(const Bounds& bounds);
  // Stops.
  ~ExchangePool();

  // Takes no task any more, and runs those that it has to their ends: each is run once.
  void Stop();
  // False: a bound is reached, or it is stopping, and the task is dropped.
  bool Add(const std::string& peer, std::function<void()> task);

 private:
  void Run();

  const Bounds bounds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  // By ClientNetwork.
  std::map<std::string, size_t> of_address_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, std::function<void()>>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_EXCHANGE_POOL_H_
