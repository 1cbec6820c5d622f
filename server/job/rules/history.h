#ifndef FARANDOLE_SERVER_JOB_RULES_HISTORY_H_
#define FARANDOLE_SERVER_JOB_RULES_HISTORY_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// The newest decisions about a job, oldest first. Owned by its Job.
class History {
 public:
  static constexpr size_t kMostEntries = 256;
  // Keeps a record with a full history below a store batch's bound.
  static constexpr size_t kMostSentenceBytes = 600;

  using Entries = google::protobuf::RepeatedPtrField<v1::HistoryEntry>;

  void Add(absl::string_view sentence, absl::Time at);
  // Entries that are added from now on show this much more than `at`.
  void SetWallAhead(absl::Duration wall_ahead) { wall_ahead_ = wall_ahead; }
  void Load(const Entries& entries) { entries_ = entries; }
  const Entries& entries() const { return entries_; }

 private:
  Entries entries_;
  absl::Duration wall_ahead_ = absl::ZeroDuration();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_HISTORY_H_
