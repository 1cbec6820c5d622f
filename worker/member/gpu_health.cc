#include "worker/member/gpu_health.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// After so long without a sample the state of the GPU is unknown.
constexpr int64_t kSampleLimitNs = 20 * kSecondNs;
// As the coordinator bounds them (server/job/rules/bounds.cc).
constexpr size_t kMostNameBytes = 96;
constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 44;

// Once something is older than `limit_ns`, and then whenever it has twice the age of the last warning, which is
// `*warned_ns`; 0: there was none.
bool IsWarningDue(int64_t age_ns, int64_t limit_ns, int64_t* warned_ns) {
  if (age_ns < *warned_ns) *warned_ns = 0;
  if (age_ns <= limit_ns || age_ns < 2 * *warned_ns) return false;
  *warned_ns = age_ns;
  return true;
}

}  // namespace

void GpuHealth::Watch(Source source, std::string who, NcclRas::Say say) {
  source_ = std::move(source);
  who_ = std::move(who);
  say_ = std::move(say);
}

void GpuHealth::Stop() {
  lookout_.reset();
  source_.reset();
}

absl::Status GpuHealth::Look(int64_t now_ns, const Pauses& pauses) {
  if (!source_.has_value() || !source_->is_used()) return absl::OkStatus();
  if (const auto warning = source_->take_warning(); warning.has_value()) say_(LogLevel::kWarning, *warning);
  if (lookout_ == nullptr) lookout_ = std::make_unique<GpuLookout>(source_->look);
  const GpuLookout::Answer answer = lookout_->Ask(now_ns);
  const int64_t silent_ns = pauses.Ran(answer.silent_ns, now_ns);
  if (IsWarningDue(silent_ns, limits_.warning_ns, &warned_driver_ns_)) {
    say_(LogLevel::kWarning,
         absl::StrCat("the driver of the GPU of ", who_, " has not answered for ", silent_ns / kSecondNs, " s"));
  }
  if (!answer.late.has_value()) return absl::OkStatus();
  const absl::StatusOr<GpuWatch::Late>& late = *answer.late;
  if (late.ok()) return Judge(*late, pauses.Ran(late->age_ns, now_ns));
  return absl::Status(late.status().code(),
                      absl::StrCat("the GPU of ", who_, " has failed: ", late.status().message()));
}

absl::Status GpuHealth::Judge(const GpuWatch::Late& late, int64_t age_ns) {
  if (age_ns <= limits_.warning_ns) {
    warned_work_ns_ = 0;
    return absl::OkStatus();
  }
  const std::string sentence =
      absl::StrCat(late.label, " is on the GPU of ", who_, " for ", age_ns / kSecondNs, " s; ",
                   late.is_computed ? "its tensors are there, and it waits for peers"
                                    : "this worker's own kernels have not computed its tensors yet");
  // The ranks that wait all say the same, so the first of them speaks; a late rank speaks for itself.
  const bool tells = late.is_first || !late.is_computed;
  if (tells && IsWarningDue(age_ns, limits_.warning_ns, &warned_work_ns_)) {
    say_(LogLevel::kWarning, sentence);
    // NCCL forgets it once the epoch has ended.
    nccl_ras_.Ask(say_);
  }
  if (limits_.stall_ns == 0 || age_ns <= limits_.stall_ns) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(sentence, ", and ", limits_.stall_ns / kSecondNs, " s is the most (FARANDOLE_STALL_LIMIT_MS)"));
}

std::optional<v1::GpuStatus> GpuHealth::TakeStatus(int64_t now_ns) {
  if (!source_.has_value() || !source_->is_used()) return std::nullopt;
  const std::optional<GpuMeter::Sample> sample = source_->take_sample();
  const bool is_stale = last_sample_ns_ != 0 && now_ns - last_sample_ns_ > kSampleLimitNs;
  if (!sample.has_value() && !is_stale) return std::nullopt;
  last_sample_ns_ = sample.has_value() ? now_ns : 0;
  v1::GpuStatus status;
  if (!sample.has_value()) return status;
  v1::Gpu* gpu = status.mutable_gpu();
  gpu->set_name(sample->name.substr(0, kMostNameBytes));
  if (sample->busy_percent.has_value()) gpu->set_busy_percent(std::min(*sample->busy_percent, 100u));
  gpu->set_memory_used_bytes(std::min(sample->memory_used, kMostMemoryBytes));
  gpu->set_memory_total_bytes(std::min(sample->memory_total, kMostMemoryBytes));
  return status;
}

}  // namespace farandole
