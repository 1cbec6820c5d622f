// Measures what the SDK adds to the C interface, in one job: blocks of allreduces of 4 bytes by both, in turns. Rank 0
// prints the medians of the blocks, in nanoseconds a call.
//
//   farandole run -np 2 overhead
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "farandole/farandole.h"

namespace {

constexpr int kBlocks = 200;
constexpr int kCalls = 2000;

template <typename Step>
double NanosecondsOf(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) step();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

double MedianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  using farandole::ExitOnError;
  farandole::Job job = ExitOnError(farandole::Init());
  const farandole::Functions& functions = job.functions();
  float value[1] = {1};
  const int64_t shape = 1;
  const auto by_c = [&] {
    farandole_handle pending = 0;
    const int code =
        functions.allreduce_now("value", value, value, &shape, 1, FARANDOLE_F32, FARANDOLE_MAX, 1, 1, 0, -1, &pending);
    ExitOnError(StatusOf(functions, code));
  };
  const auto by_cpp = [&] {
    ExitOnError(job.AllreduceInPlace(value, farandole::Call("value").With(farandole::ReduceOp::kMax)));
  };
  std::vector<double> c;
  std::vector<double> cpp;
  for (int block = 0; block < kBlocks; ++block) {
    ExitOnError(job.Barrier());
    if (block % 2 == 0) c.push_back(NanosecondsOf(by_c));
    cpp.push_back(NanosecondsOf(by_cpp));
    if (block % 2 == 1) c.push_back(NanosecondsOf(by_c));
  }
  if (job.rank() == 0) {
    std::printf("C %.0f ns, C++ %.0f ns, ratio %.3f\n", MedianOf(c), MedianOf(cpp), MedianOf(cpp) / MedianOf(c));
  }
}
