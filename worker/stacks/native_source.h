#ifndef FARANDOLE_WORKER_STACKS_NATIVE_SOURCE_H_
#define FARANDOLE_WORKER_STACKS_NATIVE_SOURCE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "farandole/v1/flight.pb.h"

namespace farandole {

// Reads the stacks of this process's compiled code by the program `farandole stacks`, since a process cannot read the
// registers of its own threads. One thread uses it; the reading itself is on a thread of its own.
class NativeSource {
 public:
  // `program` is the path of `farandole`; "": there is none, and `why_none` says why, in one sentence.
  NativeSource(std::string program, std::string why_none);

  // Begins to read, unless that goes on already. It takes 2.5 s at most, and half a second more where the program
  // hangs.
  void Begin();
  // The stacks, or without threads the reason; nullopt: they are not there yet.
  std::optional<v1::NativeStacks> Take() const;

 private:
  // Shared with the reading thread, which may outlive this object.
  struct Reading {
    std::mutex mutex;
    bool is_over = false;
    v1::NativeStacks stacks;
  };

  const std::string program_;
  const std::string why_none_;
  std::shared_ptr<Reading> reading_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_NATIVE_SOURCE_H_
