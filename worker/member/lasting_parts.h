#ifndef FARANDOLE_WORKER_MEMBER_LASTING_PARTS_H_
#define FARANDOLE_WORKER_MEMBER_LASTING_PARTS_H_

#include "worker/engine/submissions/book/timeline.h"
#include "worker/measure/logged_queue.h"
#include "worker/measure/section_clock.h"
#include "worker/stacks/stack_source.h"

namespace farandole {

// The parts of a process that outlive its worker of an epoch. Null: there is none.
struct LastingParts {
  Timeline* timeline = nullptr;
  StackSource* stacks = nullptr;
  LoggedQueue* logged = nullptr;
  SectionClock* sections = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_LASTING_PARTS_H_
