// An elastic job that adds up step numbers until its test wishes it to stop, by a file; a step that is lost or done
// twice is seen in the sum. It tells what tests/integration/programs/elastic_stepping.py does.
//
//   elastic_stepping DIRECTORY
//
// Each rank gives 12 / size() * step, so the sum is the same for any number of ranks.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "farandole/farandole.h"

namespace {

using farandole::Call;
using farandole::Job;
using farandole::ReduceOp;
using farandole::Status;
namespace elastic = farandole::elastic;

constexpr int64_t kStepsPerCommit = 5;

struct Progress {
  int64_t step = 0;
  bool stop = false;
};

Status Train(elastic::State& state, Progress& progress, std::vector<double>& sum, const std::string& stop) {
  Job& job = state.job();
  std::printf("epoch of %d as rank %d from step %ld\n", job.size(), job.rank(), static_cast<long>(progress.step));
  std::vector<double> values(sum.size());
  while (!progress.stop) {
    double wish = job.rank() == 0 && access(stop.c_str(), F_OK) == 0 ? 1 : 0;
    values.assign(values.size(), 12.0 / job.size() * static_cast<double>(progress.step));
    auto future = job.AllreduceInPlaceAsync(values, Call("steps").With(ReduceOp::kSum));
    Status status = future.Wait();
    if (status.ok()) status = job.AllreduceInPlace(farandole::Scalar(&wish), Call("wish").With(ReduceOp::kSum));
    if (!status.ok()) return status;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    progress.stop = wish > 0;
    ++progress.step;
    status = progress.step % kStepsPerCommit == 0 ? state.Commit() : state.CheckForChanges();
    if (!status.ok()) return status;
    if (progress.step % 50 == 0) std::printf("step %ld of %d\n", static_cast<long>(progress.step), job.size());
  }
  return Status();
}

}  // namespace

int main(int, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string stop = std::string(argv[1]) + "/stop";
  Job job = farandole::ExitOnError(farandole::Init());
  Progress progress;
  std::vector<double> sum(1000);
  elastic::State state(&job);
  state.Track(&progress);
  state.Track(&sum);
  farandole::ExitOnError(elastic::Run(&state, [&] { return Train(state, progress, sum, stop); }));
  const auto steps = static_cast<double>(progress.step);
  for (const double each : sum) {
    if (each != 12 * steps * (steps - 1) / 2) {
      std::printf("the sum is %g after %g steps\n", each, steps);
      return 1;
    }
  }
  std::printf("done after %ld steps, in an epoch of %d\n", static_cast<long>(progress.step), job.size());
}
