#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_PROFILER_RANGES_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_PROFILER_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace farandole {

// The declarations of nvToolsExt.h. tests/integration/test_profiler.py needs that header to check this file; the build
// does not: NVTX is headers only, and a profiler puts its functions into the tables of the library that includes them.
struct NvtxAttributes {
  uint16_t version = 3;
  uint16_t size = sizeof(NvtxAttributes);
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 1;  // an unsigned number of 64 bits
  int32_t reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;  // bytes that end with 0
  const char* message = nullptr;
};

// Ranges of time that a profiler shows which takes NVTX, as Nsight Systems does, in a domain of their own. Thread-safe.
class ProfilerRanges {
 public:
  // The ranges of the profiler in `library`, as NVTX_INJECTION64_PATH names it; it stays loaded. Once a process: the
  // same at each later call.
  //   UNAVAILABLE: there is no such library, or it does not take ranges; the text says why
  static absl::StatusOr<const ProfilerRanges*> Attach(const std::string& library);

  // A range that begins now, with a number that is shown beside it.
  uint64_t Begin(const std::string& message, uint64_t number) const;
  // Ends it, on any thread.
  void End(uint64_t range) const;

 private:
  using Domain = void*;
  using CreateDomain = Domain (*)(const char*);
  using BeginRange = uint64_t (*)(Domain, const NvtxAttributes*);
  using EndRange = void (*)(Domain, uint64_t);

  absl::Status Load(const std::string& library);

  Domain domain_ = nullptr;
  BeginRange begin_ = nullptr;
  EndRange end_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_PROFILER_RANGES_H_
