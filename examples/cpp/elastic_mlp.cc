// Fits a line while workers come and go.
//
//   .venv/bin/farandole run -np 2 --min-np 1 --max-np 4 ./elastic_mlp [STEPS]
//
// Each worker tells the number of its process. Kill one (kill -9) at any time: the others go on from the last commit.
#include <farandole/farandole.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using farandole::Call;
using farandole::Job;
using farandole::ReduceOp;
using farandole::Status;

constexpr int64_t kSamples = 100'000;
constexpr int64_t kStepsPerCommit = 10;
constexpr double kRate = 0.5;

struct Line {
  double slope = 0;
  double offset = 0;
  int64_t step = 0;
};

// The samples are of y = 2.5 x - 1.
Status Train(farandole::elastic::State& state, Line& line, int64_t steps) {
  Job& job = state.job();
  std::printf("process %d is rank %d of %d, from step %ld on\n", static_cast<int>(getpid()), job.rank(), job.size(),
              static_cast<long>(line.step));
  const std::vector<int64_t> share = farandole::DistributedSampler(kSamples, job.rank(), job.size()).Indices();
  while (line.step < steps) {
    std::vector<double> gradient(2);
    for (const int64_t index : share) {
      const double x = 2.0 * static_cast<double>(index) / kSamples - 1;
      const double error = line.slope * x + line.offset - (2.5 * x - 1);
      gradient[0] += error * x / static_cast<double>(share.size());
      gradient[1] += error / static_cast<double>(share.size());
    }
    if (Status status = job.AllreduceInPlace(gradient, "gradient"); !status.ok()) return status;
    line.slope -= kRate * gradient[0];
    line.offset -= kRate * gradient[1];
    ++line.step;
    const bool is_told = job.rank() == 0 && line.step % std::max<int64_t>(steps / 10, 1) == 0;
    if (is_told) std::printf("step %ld: y = %.3f x + %.3f\n", static_cast<long>(line.step), line.slope, line.offset);
    const bool is_due = line.step % kStepsPerCommit == 0;
    if (Status status = is_due ? state.Commit() : Status(); !status.ok()) return status;
  }
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 400;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Job job = farandole::ExitOnError(farandole::Init());
  Line line;
  farandole::elastic::State state(&job);
  state.Track(&line);
  farandole::ExitOnError(farandole::elastic::Run(&state, [&] { return Train(state, line, steps); }));
  if (job.rank() == 0) std::printf("y = %.3f x + %.3f after %ld steps\n", line.slope, line.offset, (long)line.step);
}
