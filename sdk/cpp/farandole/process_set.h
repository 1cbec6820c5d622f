#ifndef FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "farandole/life.h"
#include "farandole/status.h"

namespace farandole {
inline namespace sdk {

/// Some ranks of the job that run collectives among themselves; as constructed by default all of them, which need no
/// registration. Job::AddProcessSet makes the others, each for one epoch. A value: copies mean the same set.
class ProcessSet {
 public:
  ProcessSet() = default;
  ProcessSet(const Life& life, int32_t group, std::vector<int32_t> ranks)
      : life_(life), group_(group), epoch_(life.functions().epoch()), ranks_(std::move(ranks)) {}

  /// The library's number of it.
  int32_t group() const { return group_; }
  /// Its ranks in the job, ascending; empty for all of them.
  const std::vector<int32_t>& ranks() const { return ranks_; }
  bool is_global() const { return group_ == 0; }
  /// FAILED_PRECONDITION: the epoch for which the set was made has ended, or the Job that has made it.
  Status Check() const {
    if (is_global()) return Status();
    const bool is_present = life_.is_present();
    const int64_t epoch = life_.functions().epoch();
    if (is_present && epoch == epoch_) return Status();
    std::string named;
    for (const int32_t rank : ranks_) named += (named.empty() ? "" : ",") + std::to_string(rank);
    const std::string made = "the process set of ranks [" + named + "] was made ";
    return Status(StatusCode::kFailedPrecondition,
                  is_present ? made + "in epoch " + std::to_string(epoch_) + ", and this is epoch " +
                                   std::to_string(epoch) + ": make it again in each epoch"
                             : made + "by a Job that has ended: make it again by the present one");
  }

 private:
  Life life_;
  int32_t group_ = 0;
  int64_t epoch_ = 0;
  std::vector<int32_t> ranks_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_
