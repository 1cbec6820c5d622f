#ifndef FARANDOLE_WORKER_STACKS_STACK_SOURCE_H_
#define FARANDOLE_WORKER_STACKS_STACK_SOURCE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace farandole {

// The ways to read the stacks of the program's threads that its language's SDK has registered. Neither sends a signal
// or stops a thread. Owned by the process; thread-safe.
class StackSource {
 public:
  struct Ways {
    // Writes the stacks as text, at most `bytes` of it, and returns how many it has written. Takes the interpreter's
    // lock, and so waits as long as another thread keeps that. Null: there is none.
    int64_t (*read)(char* text, int64_t bytes) = nullptr;
    // The process's handler of this signal writes them to `fd`, a file in memory, without any lock: to be called, not
    // sent. 0: there is none.
    int signal = 0;
    int fd = -1;
    // pthread_self() of the main thread, by which the text names it.
    uint64_t main_thread = 0;
  };

  void Set(const Ways& ways);
  bool is_set() const;
  uint64_t main_thread() const;

  // Begins to read with the interpreter's lock, on a thread of its own, unless that goes on already.
  void Begin();
  // The text, once; nullopt: it is not there yet.
  std::optional<std::string> Take();
  // Reads without the interpreter's lock. Only where Begin has had no answer for a while: then a thread keeps the lock
  // within a function in C, so that no frame changes. "": there is no way.
  std::string ReadWithoutLock();

 private:
  // Shared with the reading thread, which may outlive this object's interest in it.
  struct Reading {
    std::mutex mutex;
    bool is_over = false;
    std::string text;
  };

  mutable std::mutex mutex_;
  Ways ways_;
  std::shared_ptr<Reading> reading_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_STACK_SOURCE_H_
