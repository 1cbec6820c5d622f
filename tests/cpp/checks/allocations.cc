// Allocations of a call of the SDK when ranks exchange something. job_test.cc has the same for a job of size 1.
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/cpp/checks/check.h"

namespace {
// Of this thread: libstdc++ uses the program's operators for the library's threads, too.
thread_local int64_t allocations = 0;
}  // namespace

// GCC must not inline one of a pair without the other: it would then warn that free() does not match operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* const made = std::malloc(bytes); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace farandole::checks {
namespace {

CHECK_OF_ALL_RANKS(CallsAllocateNothingInTheSteadyState) {
  // Over a network, the library itself allocates in libstdc++.
  const char* const transport = std::getenv("FARANDOLE_TRANSPORT");
  const bool is_in_memory = transport == nullptr || std::string(transport) == "auto";
  if (job.local_size() < job.size() || !is_in_memory) return;
  for (const int64_t rows : {int64_t{10}, int64_t{20'000}}) {
    std::vector<float> input(static_cast<size_t>(rows * job.size()), 1);
    std::vector<float> output(input.size());
    std::vector<float> part(static_cast<size_t>(rows));
    const std::vector<MutableTensor> grouped = {input, output};
    // No REQUIRE here, which makes a string.
    const auto call_all = [&] {
      auto then = job.AllreduceInPlaceAsync(output, "eight").Then([](Status status) { return status.ok(); });
      return then.Wait() && job.Allreduce(input, output, "one").ok() &&
             job.AllreduceInPlace(output, Call("two").With(ReduceOp::kMax)).ok() &&
             job.AllreduceInPlaceAsync(output, "three").Wait().ok() && job.BroadcastInPlace(output, 0, "four").ok() &&
             job.Reducescatter(input, part, "five").ok() && job.GroupedAllreduceInPlace(grouped, "six").ok() &&
             job.Barrier("seven").ok();
    };
    REQUIRE(call_all() && call_all());
    const int64_t before = allocations;
    bool is_well = true;
    for (int turn = 0; turn < 10; ++turn) is_well = call_all() && is_well;
    REQUIRE_EQ(allocations, before);
    REQUIRE(is_well);
  }
}

}  // namespace
}  // namespace farandole::checks
