#ifndef FARANDOLE_WEB_WRITER_REPLY_WRITER_H_
#define FARANDOLE_WEB_WRITER_REPLY_WRITER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace farandole {

// Threads that write long replies, so that nobody else's reply waits for them. Tenants take turns, and one reply of
// each is written at a time: a tenant with many delays no other. Owned by the edge; any thread.
class ReplyWriter {
 public:
  explicit ReplyWriter(int threads);
  // Drops what waits, and waits for what is being written.
  ~ReplyWriter();

  // `write` must not throw. It is called once, on one of the threads, or dropped.
  void Add(const std::string& tenant, std::function<void()> write);

 private:
  using Waiting = std::deque<std::function<void()>>;

  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Of tenants of which a reply waits or is being written.
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // Tenants of which a reply waits and none is being written.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// Those of an edge. The parts that a page shows do not wait for anybody's files.
struct ReplyWriters {
  ReplyWriter pages{2};
  // One long file leaves a thread for those of other tenants.
  ReplyWriter files{2};
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_WRITER_REPLY_WRITER_H_
