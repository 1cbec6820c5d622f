// The C interface to what programs log.
#include <optional>

#include "worker/abi/c_call.h"
#include "worker/core/clock.h"
#include "worker/farandole.h"

using farandole::Code;
using farandole::Process;
using farandole::Worker;

extern "C" {

int farandole_log(const char* name, double value, int64_t step, int by_rank) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](const Worker&) {
    const std::optional<int64_t> at = step == FARANDOLE_NEXT_STEP ? std::nullopt : std::make_optional(step);
    return Code(Process().logged().Log(name == nullptr ? "" : name, value, at, by_rank != 0, farandole::MonotonicNs()));
  });
}

}  // extern "C"
