#include "server/job/parts.h"

#include <algorithm>
#include <utility>

namespace farandole {
namespace {

// A survivor that does not open its stream holds up the others; thousands at a time take seconds.
constexpr int kOpenSilences = 3;

}  // namespace

JobParts::JobParts(std::string tenant, std::string name, const JobOptions& job_options,
                   std::function<std::string(size_t)> random)
    : options(job_options),
      random_bytes(std::move(random)),
      ledger(std::move(tenant), std::move(name)),
      lobby(options.max_workers, options.open_limit, kOpenSilences * options.silence_limit),
      gate(ledger.tenant(), ledger.name()),
      logged(ledger.tenant(), ledger.name(), options.logged) {
  if (options.traces_runs) ledger.TraceRuns(random_bytes);
}

RunningEpoch::StallLimits JobParts::StallLimits() const {
  const uint64_t limit_ms = ledger.record().elastic().stall_limit_ms();
  return {absl::Milliseconds(ledger.record().stall_warning_ms()),
          limit_ms == 0 ? absl::InfiniteDuration() : absl::Milliseconds(static_cast<int64_t>(limit_ms))};
}

bool JobParts::IsNobodyLeft() const {
  return survivors != nullptr && survivors->awaited() == 0 && survivors->back() == 0;
}

bool JobParts::IsFinishing() const {
  const Roster* const roster = PresentRoster();
  return IsElastic() && roster != nullptr && roster->IsFinishing();
}

const Roster* JobParts::PresentRoster() const {
  if (run != nullptr) return &run->roster();
  return survivors == nullptr ? nullptr : &survivors->roster();
}

size_t JobParts::Joining() const {
  const size_t remaining = run->roster().remaining();
  return remaining >= MaxSize() ? 0 : std::min<size_t>(lobby.newcomers(), MaxSize() - remaining);
}

}  // namespace farandole
