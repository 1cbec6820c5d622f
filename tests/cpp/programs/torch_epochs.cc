// Elastic training with a GradientReducer, in which an event ends the first epoch between backward() and the end of
// Synchronize(). The epochs that follow must train as if it had not been.
//
//   torch_epochs EVENT
//
//   agreement  the last rank dies in the first step; the others learn it where Synchronize() has the ranks agree
//   operation  the last rank dies in the second step; the others learn it by another operation, and do not synchronize
//   change     all ranks go on in the next epoch instead of Synchronize()
//   twice      the same, after the gradients were made twice
//   life       the process leaves the job and begins another one, with the same reducer
//
// Each rank gives the parameter "all" a gradient of its rank + 1. The parameter "last" is trained only by the process
// that is the last rank of the first epoch.
#include <ATen/Parallel.h>
#include <farandole/farandole.h>
#include <farandole/torch.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "tests/cpp/programs/require.h"

namespace {

using farandole::ExitOnError;
using farandole::Job;
using farandole::Status;
using farandole::StatusCode;
namespace elastic = farandole::elastic;

constexpr int64_t kSteps = 4;

// The state that all ranks share.
struct Progress {
  int64_t step = 0;
  bool has_happened = false;
};

class Training {
 public:
  Training(Job* job, std::string event)
      : job_(job), event_(std::move(event)), is_last_(job->epoch() <= 1 && job->rank() == job->size() - 1) {
    all_.requires_grad_();
    last_.requires_grad_(is_last_);
    reducer_.emplace(job, farandole::NamedTensors{{"all", all_}, {"last", last_}});
  }

  void Backward() {
    all_.mutable_grad() = at::Tensor();
    last_.mutable_grad() = at::Tensor();
    ((job_->rank() + 1) * all_.sum() + last_.sum()).backward();
  }

  Status Synchronize(bool has_last) {
    Status status = reducer_->Synchronize();
    if (!status.ok()) return status;
    REQUIRE(all_.grad().eq((job_->size() + 1) / 2.0).all().item<bool>());
    REQUIRE(last_.grad().defined() == has_last);
    REQUIRE(!has_last || at::allclose(last_.grad(), at::full({3}, 1.0 / job_->size())));
    return status;
  }

  Status Train(elastic::State& state, Progress& progress) {
    for (; progress.step < kSteps; ++progress.step) {
      Backward();
      if (!progress.has_happened && progress.step == (event_ == "agreement" ? 0 : 1)) {
        progress.has_happened = true;
        state.Save();
        if (Status status = Happen(); !status.ok()) return status;
      }
      if (Status status = Synchronize(!progress.has_happened || !HasDeath()); !status.ok()) return status;
    }
    return Status();
  }

 private:
  bool HasDeath() const { return event_ == "agreement" || event_ == "operation"; }

  Status Happen() {
    if (event_ == "twice") Backward();
    if (!HasDeath()) return Status(StatusCode::kWorkersChange, "the test wants another epoch");
    if (is_last_) raise(SIGKILL);
    if (event_ == "agreement") return Status();
    double value = 1;
    Status status = job_->AllreduceInPlace(farandole::Scalar(&value), "other");
    REQUIRE(status.code() == StatusCode::kAborted);
    return status;
  }

  Job* const job_;
  const std::string event_;
  const bool is_last_;
  at::Tensor all_ = at::ones({1 << 16});
  at::Tensor last_ = at::ones({3});
  std::optional<farandole::GradientReducer> reducer_;
};

}  // namespace

int main(int, char** argv) {
  at::set_num_threads(1);
  const std::string event = argv[1];
  Job job = ExitOnError(farandole::Init());
  Training training(&job, event);
  if (event == "life") {
    training.Backward();
    ExitOnError(training.Synchronize(true));
    training.Backward();
    ExitOnError(job.Shutdown());
    job = ExitOnError(farandole::Init());
    training.Backward();
    ExitOnError(training.Synchronize(true));
  } else {
    Progress progress;
    elastic::State state(&job);
    state.Track(&progress);
    ExitOnError(elastic::Run(&state, [&] { return training.Train(state, progress); }));
  }
  std::printf("all holds\n");
}
