// Fits a line while workers come and go.
//
//   .venv/bin/farandole run -np 2 --min-np 1 --max-np 4 ./elastic_mlp
//
// Kill a worker (kill -9) at any time: the others go on from the last commit.
#include <farandole/farandole.h>

#include <cstdio>
#include <vector>

namespace {

using farandole::Call;
using farandole::Job;
using farandole::ReduceOp;
using farandole::Status;

constexpr int64_t kSamples = 1200;
constexpr int64_t kSteps = 400;
constexpr int64_t kStepsPerCommit = 10;
constexpr double kRate = 0.5;

struct Line {
  double slope = 0;
  double offset = 0;
  int64_t step = 0;
};

// The samples are of y = 2.5 x - 1.
Status Train(farandole::elastic::State& state, Line& line) {
  Job& job = state.job();
  if (job.rank() == 0) std::printf("%d workers, from step %ld on\n", job.size(), static_cast<long>(line.step));
  const std::vector<int64_t> share = farandole::DistributedSampler(kSamples, job.rank(), job.size()).Indices();
  while (line.step < kSteps) {
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
    const bool is_due = line.step % kStepsPerCommit == 0;
    if (Status status = is_due ? state.Commit() : Status(); !status.ok()) return status;
  }
  return Status();
}

}  // namespace

int main() {
  Job job = farandole::ExitOnError(farandole::Init());
  Line line;
  farandole::elastic::State state(&job);
  state.Track(&line);
  farandole::ExitOnError(farandole::elastic::Run(&state, [&] { return Train(state, line); }));
  if (job.rank() == 0) std::printf("y = %.3f x + %.3f after %ld steps\n", line.slope, line.offset, (long)line.step);
}
