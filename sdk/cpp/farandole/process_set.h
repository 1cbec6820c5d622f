#ifndef FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "farandole/library.h"

namespace farandole {
inline namespace sdk {

// Some ranks of the job that run collectives among themselves; as constructed by default all of them, which need no
// registration. Job::AddProcessSet makes the others, each for one epoch. A value: copies mean the same set.
class ProcessSet {
 public:
  ProcessSet() = default;
  ProcessSet(const Functions* functions, int32_t group, std::vector<int32_t> ranks)
      : functions_(functions), group_(group), epoch_(functions->epoch()), ranks_(std::move(ranks)) {}

  // The library's number of it.
  int32_t group() const { return group_; }
  // Its ranks in the job, ascending; empty for all of them.
  const std::vector<int32_t>& ranks() const { return ranks_; }
  bool is_global() const { return group_ == 0; }
  // FAILED_PRECONDITION: the epoch for which the set was made has ended.
  Status Check() const {
    if (is_global() || functions_->epoch() == epoch_) return Status();
    std::string named;
    for (const int32_t rank : ranks_) named += (named.empty() ? "" : ",") + std::to_string(rank);
    return Status(StatusCode::kFailedPrecondition,
                  "the process set of ranks [" + named + "] was made in epoch " + std::to_string(epoch_) +
                      ", and this is epoch " + std::to_string(functions_->epoch()) + ": make it again in each epoch");
  }

 private:
  const Functions* functions_ = nullptr;
  int32_t group_ = 0;
  int64_t epoch_ = 0;
  std::vector<int32_t> ranks_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_PROCESS_SET_H_
