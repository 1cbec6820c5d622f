#ifndef FARANDOLE_SDK_JAX_COMPLETER_H_
#define FARANDOLE_SDK_JAX_COMPLETER_H_

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sdk/jax/call.h"

namespace farandole::jax {

// Runs the calls of all programs of the process: submits them without waiting, and has one thread of its own deliver
// what completes, in whatever order that is. Calls of one name and group, as threads that run one program make them,
// run one after the other: the library has a name pending once. Lives as long as the process.
class Completer {
 public:
  static Completer& Get();

  // Starts a prepared call, and returns the value for XLA's handler: NULL or an error if the call has ended already;
  // else NULL and, in `future`, the future that XLA waits for.
  FfiError* Run(std::unique_ptr<Call> call, FfiFuture** future);

 private:
  using Key = std::tuple<Op, int32_t, std::string>;

  Completer() = default;
  static Key KeyOf(const Call& call);
  // Under the lock: submits; a call that has failed at once is given back.
  std::unique_ptr<Call> StartLocked(std::unique_ptr<Call> call);
  // The name is free: the next call that waits for it starts. One that fails at once is given back.
  std::unique_ptr<Call> StartNext(const Key& key);
  // Delivers, and starts the calls that have waited for the name.
  void Finish(std::unique_ptr<Call> call);
  void Loop();

  std::mutex mutex_;
  // Never destroyed: the thread waits for it when the process exits.
  std::condition_variable& submitted_ = *new std::condition_variable();
  // Names on their way, and the calls that wait for each.
  std::map<Key, std::deque<std::unique_ptr<Call>>> names_;
  std::vector<std::unique_ptr<Call>> pending_;
  bool has_thread_ = false;
};

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_COMPLETER_H_
