#include "tests/simulation/virtual_time.h"

#include <utility>

namespace farandole {
namespace {

// The clock is asked for by plain functions of the programs under simulation.
thread_local int64_t now_on_this_thread_ns = 0;

}  // namespace

VirtualTime::VirtualTime(uint32_t seed) : random_(seed) { now_on_this_thread_ns = 0; }

int64_t VirtualTime::NowNs() { return now_on_this_thread_ns; }

void VirtualTime::After(int64_t delay_ns, std::function<void()> event) {
  queue_.push({now_ns_ + delay_ns, ++events_, std::move(event)});
}

bool VirtualTime::Step(int64_t limit_ns) {
  if (queue_.empty() || queue_.top().at_ns > limit_ns) return false;
  const std::function<void()> run = queue_.top().run;
  now_ns_ = queue_.top().at_ns;
  now_on_this_thread_ns = now_ns_;
  queue_.pop();
  run();
  return true;
}

}  // namespace farandole
