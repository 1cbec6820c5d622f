// Measures what the SDK adds to the C interface, in one job: blocks of allreduces by both, in turns, of COUNT
// elements of float32, by default of one. Rank 0 prints the medians of the blocks, in nanoseconds a call.
//
//   farandole run -np 2 overhead [COUNT]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "farandole/farandole.h"

namespace {

// In blocks of these sizes each side takes some milliseconds; of the largest tensors, some tens.
int BlocksOf(long count) { return count > 1 << 20 ? 40 : 200; }
int CallsOf(long count) { return static_cast<int>(std::max(count > 1 << 20 ? 2L : 10L, 2000 / (1 + count / 256))); }

template <typename Step>
double NanosecondsOf(int calls, const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) step();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

double MedianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int words, char** given) {
  using farandole::ExitOnError;
  const long count = words > 1 ? std::strtol(given[1], nullptr, 10) : 1;
  if (count < 1) {
    std::fprintf(stderr, "COUNT is '%s'; it must be a number from 1 on\n", given[1]);
    return 1;
  }
  const int calls = CallsOf(count);
  farandole::Job job = ExitOnError(farandole::Init());
  const farandole::Functions& functions = job.functions();
  std::vector<float> value(static_cast<size_t>(count), 1);
  const int64_t shape = count;
  const auto by_c = [&] {
    farandole_handle pending = 0;
    const int code = functions.allreduce_now("value", value.data(), value.data(), &shape, 1, FARANDOLE_F32,
                                             FARANDOLE_MAX, 1, 1, 0, -1, &pending);
    ExitOnError(StatusOf(functions, code));
  };
  const auto by_cpp = [&] {
    ExitOnError(job.AllreduceInPlace(value, farandole::Call("value").With(farandole::ReduceOp::kMax)));
  };
  std::vector<double> c;
  std::vector<double> cpp;
  for (int block = 0; block < BlocksOf(count); ++block) {
    ExitOnError(job.Barrier());
    if (block % 2 == 0) c.push_back(NanosecondsOf(calls, by_c));
    cpp.push_back(NanosecondsOf(calls, by_cpp));
    if (block % 2 == 1) c.push_back(NanosecondsOf(calls, by_c));
  }
  if (job.rank() == 0) {
    std::printf("C %.0f ns, C++ %.0f ns, ratio %.3f\n", MedianOf(c), MedianOf(cpp), MedianOf(cpp) / MedianOf(c));
  }
}
