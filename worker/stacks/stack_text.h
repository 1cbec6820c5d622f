#ifndef FARANDOLE_WORKER_STACKS_STACK_TEXT_H_
#define FARANDOLE_WORKER_STACKS_STACK_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "farandole/v1/flight.pb.h"

namespace farandole {

// Reads stacks in the form of Python's faulthandler, in which `Thread 0x00007f12 [NAME] (most recent call first):`
// stands before the lines `  File "train.py", line 12 in load` of a thread; `tid=N` may stand behind the name. The main
// thread, whose number is `main_thread`, comes first; where none has it, the last one does, as faulthandler has it. At
// most 64 threads of 100 frames each; other lines are left out. Pure.
//
// A first line `about: SENTENCE` says how the stacks were read, which StackTextAbout gives; "": it says nothing.
std::vector<v1::ThreadStack> ReadStackText(absl::string_view text, uint64_t main_thread);
std::string StackTextAbout(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_STACK_TEXT_H_
