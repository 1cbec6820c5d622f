#ifndef FARANDOLE_SERVER_DIAGNOSIS_TOLD_BLOCKERS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_TOLD_BLOCKERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "server/diagnosis/judge.h"

namespace farandole {

// The blockers of an epoch of which its history has a sentence. Owned by EpochDiagnosis.
class ToldBlockers {
 public:
  // Cheaper blockers, in percent of the job's time, and more sentences than that, would bury the history's decisions.
  static constexpr double kDear = 10;
  static constexpr size_t kMost = 32;

  // Whether to tell of it: it is dear, and nobody was told of this cause, of this rank or host, or of its excuse. A
  // first judgement looks at seconds only, so a later one may find another excuse. Those take no place of another
  // cause.
  bool IsNews(const Blocker& blocker) {
    if (blocker.percent < kDear) return false;
    const Whom whom(blocker.cause, blocker.rank, blocker.host);
    if (told_.size() < kMost && told_.insert(whom).second) {
      excuses_.emplace(whom, blocker.excuse);
      return true;
    }
    return told_.count(whom) > 0 && excuses_.size() < 2 * kMost && excuses_.emplace(whom, blocker.excuse).second;
  }

 private:
  using Whom = std::tuple<Cause, std::optional<uint32_t>, std::optional<uint32_t>>;

  std::set<Whom> told_;
  std::set<std::pair<Whom, Excuse>> excuses_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_TOLD_BLOCKERS_H_
