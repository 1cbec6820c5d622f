#include "server/job/job.h"

#include <utility>

#include "server/job/state.h"

namespace farandole {

Job::Job(std::string tenant, std::string name, JobOptions options, std::function<std::string(size_t)> random_bytes)
    : state_(std::make_unique<State>(std::move(tenant), std::move(name), options, std::move(random_bytes))) {}

Job::~Job() = default;

absl::StatusOr<std::unique_ptr<Job>> Job::Restore(std::string tenant, std::string name, JobOptions options,
                                                  std::function<std::string(size_t)> random_bytes,
                                                  absl::Span<const StoreRow> rows, absl::Time now,
                                                  absl::Duration wall_ahead) {
  auto job = std::make_unique<Job>(std::move(tenant), std::move(name), options, std::move(random_bytes));
  if (absl::Status status = job->state_->Load(rows, now, wall_ahead); !status.ok()) return status;
  return job;
}

Actions Job::Step(const Event& event, absl::Time now, absl::Duration wall_ahead) {
  return state_->Step(event, now, wall_ahead);
}

void Job::DeferLogged(bool defers) { state_->parts().defers_logged = defers; }

bool Job::HasMeasured() const { return !state_->IsDeleted() && state_->parts().measured.IsDue(); }

StoreBatch Job::TakeMeasured() { return state_->TakeMeasured(); }

void Job::HastenMeasured() {
  if (RunningEpoch* const run = state_->parts().run.get(); run != nullptr) run->diagnosis().Close();
}

v1::JobSummary Job::Summary() const { return state_->Summary(); }

bool Job::IsClaimed() const { return state_->IsClaimed(); }

bool Job::IsDeleted() const { return state_->IsDeleted(); }

bool Job::IsIdle() const { return state_->IsIdle(); }

int64_t Job::SpaceUsed() const { return state_->SpaceUsed(); }

}  // namespace farandole
