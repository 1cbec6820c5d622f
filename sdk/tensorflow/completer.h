#ifndef FARANDOLE_SDK_TENSORFLOW_COMPLETER_H_
#define FARANDOLE_SDK_TENSORFLOW_COMPLETER_H_

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sdk/tensorflow/call.h"

namespace farandole::tensorflow {

// Runs the calls of all kernels of the process: submits them without waiting, and has one thread of its own deliver
// completions, in the order in which they come. Calls of one name and group, as the iterations of a loop make them, run
// one after the other: the library has a name pending once. Lives as long as the process.
class Completer {
 public:
  static Completer& Get();

  // Runs a call to its delivery. If the call's attributes say that the caller waits, this thread does the work and has
  // usually delivered on return; otherwise the completer's thread delivers.
  void Run(std::unique_ptr<Call> call);

 private:
  using Key = std::tuple<Op, int32_t, std::string>;

  Completer() = default;
  // Under the lock: submits; a call that has failed at once is given back.
  std::unique_ptr<Call> StartLocked(std::unique_ptr<Call> call);
  // Delivers, and starts the calls that have waited for the name.
  void Finish(std::unique_ptr<Call> call);
  void WaitAndFinish(std::unique_ptr<Call> call);
  bool StartThreadLocked();
  void Loop();

  std::mutex mutex_;
  // Never destroyed: the thread waits for it when the process exits.
  std::condition_variable& submitted_ = *new std::condition_variable();
  // Names on their way, and the calls that wait for each.
  std::map<Key, std::deque<std::unique_ptr<Call>>> names_;
  std::vector<std::unique_ptr<Call>> pending_;
  bool has_thread_ = false;
};

}  // namespace farandole::tensorflow

#endif  // FARANDOLE_SDK_TENSORFLOW_COMPLETER_H_
