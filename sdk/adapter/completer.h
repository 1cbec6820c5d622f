#ifndef FARANDOLE_SDK_ADAPTER_COMPLETER_H_
#define FARANDOLE_SDK_ADAPTER_COMPLETER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sdk/adapter/call.h"

namespace farandole::adapter {

// Runs the calls that a framework makes in the process: submits them, and has one thread of its own deliver
// completions, in the order in which they come. A call that is complete on submission is delivered by its caller. Calls
// of one operation, name and group, as the iterations of a loop make them, run one after the other: the library has a
// name pending once. Lives as long as the process.
class Completer {
 public:
  static Completer& Get();

  // False: this process can start no thread, and Run would fail the calls that do not wait.
  bool Start();
  // Gives the call its place behind those of its name that have one; without it, Run does. Run or Skip is to follow.
  void Reserve(Call* call);
  // Runs a call to its delivery. If its terms say that the caller waits, and no other call of its name is before it,
  // this thread does the work and has delivered on return; otherwise the completer's thread delivers.
  void Run(std::unique_ptr<Call> call);
  // The call will not run, and is not delivered; those behind it need not wait for it.
  void Skip(std::unique_ptr<Call> call);

 private:
  using Key = std::tuple<Op, int32_t, std::string>;

  // The calls of a name.
  struct Queue {
    uint64_t reserved = 0;
    uint64_t present = 1;
    std::map<uint64_t, std::unique_ptr<Call>> waiting;
  };

  Completer() = default;
  static Key KeyOf(const Call& call);
  void ReserveLocked(Call* call);
  bool StartThreadLocked();
  // Under the lock: submits; a call that has ended at once is given back.
  std::unique_ptr<Call> StartLocked(std::unique_ptr<Call> call);
  // The present call of the name has ended: the next one starts, if it has come. One that has ended at once is given
  // back.
  std::unique_ptr<Call> StartNext(const Key& key);
  // Delivers, and starts the calls that have waited for the name.
  void Finish(std::unique_ptr<Call> call);
  void Loop();

  std::mutex mutex_;
  // Never destroyed: the thread waits for it when the process exits.
  std::condition_variable& submitted_ = *new std::condition_variable();
  std::map<Key, Queue> names_;
  std::vector<std::unique_ptr<Call>> pending_;
  bool has_thread_ = false;
};

}  // namespace farandole::adapter

#endif  // FARANDOLE_SDK_ADAPTER_COMPLETER_H_
