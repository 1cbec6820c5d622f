// The C interface to the sections that programs mark.
#include "worker/abi/c_call.h"
#include "worker/core/clock.h"
#include "worker/farandole.h"

using farandole::Code;
using farandole::Process;
using farandole::SectionClock;
using farandole::Worker;

namespace {

SectionClock::Moment MomentOf(Worker& worker) {
  const int64_t now_ns = farandole::MonotonicNs();
  return {now_ns, worker.engine().WaitedNs(now_ns), worker.rank_numbers().epoch};
}

}  // namespace

extern "C" {

int64_t farandole_section_begin(const char* name) {
  return farandole::WithWorker<int64_t>(0, [&](Worker& worker) -> int64_t {
    const absl::StatusOr<int64_t> number = Process().sections().Begin(name == nullptr ? "" : name, MomentOf(worker));
    return number.ok() ? *number : -static_cast<int64_t>(Code(number.status()));
  });
}

void farandole_section_end(int64_t section) {
  if (section <= 0) return;
  farandole::WithWorker<int>(0, [&](Worker& worker) {
    Process().sections().End(section, MomentOf(worker));
    return 0;
  });
}

}  // extern "C"
