#ifndef FARANDOLE_SERVER_JOB_MEMBERS_LOST_WORKERS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_LOST_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// The workers of one job that were lost, by launch index, until their processes have ended by the launcher's word, or
// are seen again. Bounded. Owned by its Job, whose record keeps the newest.
class LostWorkers {
 public:
  // Twice as many as a job has workers, unless the coordinator's operator lets it have more.
  static constexpr size_t kMostKept = 8192;
  static constexpr int kMostListed = 1024;
  // In the record, which shares a store batch with that of the members: at most 50 KB.
  static constexpr int kMostRecorded = 128;

  struct Loss {
    // Where it ran, by its own word.
    std::string hostname;
    absl::Time since;
    std::string sentence;
    // Its host has been made to answer for it.
    bool is_counted = false;
  };

  // A worker was lost just now.
  void Add(const v1::Member& member, const std::string& sentence, bool is_counted, absl::Time now);
  // Its process has ended, or lives: it is forgotten. (Not worth a write of the record: one too many there does no
  // harm.)
  void Remove(uint32_t launch_index);
  void Clear();
  // Null: it was not lost.
  const Loss* Find(uint32_t launch_index) const;
  v1::ListLostResponse List(absl::Time now) const;
  // As BarredHosts; no worker was lost later than `now`.
  void Save(absl::Duration wall_ahead, v1::JobRecord* record) const;
  void Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead);

 private:
  void Put(uint32_t launch_index, Loss loss);

  absl::btree_map<uint32_t, Loss> losses_;
  // Their launch indices, the longest lost first.
  absl::btree_set<std::pair<absl::Time, uint32_t>> longest_first_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_LOST_WORKERS_H_
