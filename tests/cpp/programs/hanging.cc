// Steps until the last rank waits for input that never comes, in LoadBatch(); the others wait for it in Train().
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "farandole/farandole.h"

namespace {

constexpr int kLastStep = 20;

// Not inlined: a test looks for their names on the stack.
[[gnu::noinline]] void LoadBatch(int input) {
  char byte = 0;
  if (read(input, &byte, 1) != 1) std::abort();
}

[[gnu::noinline]] void Train(farandole::Job& job, int input) {
  std::vector<float> gradient(8192, 1);
  for (int step = 0;; ++step) {
    if (step == kLastStep && job.rank() == job.size() - 1) {
      std::printf("stuck\n");
      LoadBatch(input);
    }
    farandole::ExitOnError(job.AllreduceInPlace(gradient, farandole::Call("grad")));
  }
}

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 3;
  farandole::Job job = farandole::ExitOnError(farandole::Init());
  Train(job, pipe_ends[0]);
}
