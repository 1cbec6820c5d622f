// Steps until its test wishes otherwise, by a file `stop` in the directory. Ends with code 3 and the sentence of the
// first operation that fails.
//
//   stepping DIRECTORY
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

Status Step(Job& job, const std::string& stop) {
  std::vector<float> values(10'000);
  for (int step = 0;; ++step) {
    values.assign(values.size(), 1);
    values[0] = job.rank() == 0 && access(stop.c_str(), F_OK) == 0 ? 1 : 0;
    const Call call = Call("steps").With(ReduceOp::kSum);
    if (Status status = job.AllreduceInPlace(values, call); !status.ok()) return status;
    if (values[1] != static_cast<float>(job.size())) {
      return Status(farandole::StatusCode::kInternal, "the sum is wrong");
    }
    if (values[0] > 0) return Status();
    if (step % 50 != 0) continue;
    std::printf("step %d\n", step);
    if (Status status = job.Log("rank", job.rank(), step); !status.ok()) return status;
    if (Status status = job.Log("own", job.rank(), step, /*by_rank=*/true); !status.ok()) return status;
  }
}

}  // namespace

int main(int, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Job job = farandole::ExitOnError(farandole::Init());
  std::printf("process %d\n", getpid());
  if (Status status = Step(job, std::string(argv[1]) + "/stop"); !status.ok()) {
    std::printf("code %d: %s\n", static_cast<int>(status.code()), status.message().c_str());
    return 3;
  }
  farandole::ExitOnError(job.Shutdown());
  std::printf("done\n");
}
