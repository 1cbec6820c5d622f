#ifndef FARANDOLE_SERVER_JOB_MEMBERS_BARRED_HOSTS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_BARRED_HOSTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// The hosts of one job on which workers failed. The bar on a host doubles with each failure, from the least to the most
// cooldown. A failure on a barred host is not counted, since its worker was started before the bar. A host is forgotten
// when it has been open for the most cooldown without a failure. Owned by its Job.
class BarredHosts {
 public:
  static constexpr size_t kMostHosts = 64;

  // The job's bounds; both zero: no host is barred.
  void Configure(const v1::Elastic& elastic);
  // Records go by the wall clock, which is `wall_ahead` of the caller's. A host of a record is barred for the longest
  // time at most, wherever that clock was set meanwhile.
  void Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead);
  void Save(absl::Duration wall_ahead, v1::JobRecord* record) const;
  void Clear() { hosts_.clear(); }

  // The launcher calls the host `launcher_name`.
  void Name(const std::string& hostname, const std::string& launcher_name);
  // A worker has failed there. The sentence if that bars the host, else "".
  std::string Fail(const std::string& hostname, absl::Time now);
  // How long it is barred from `now`; zero: it is not. By either name.
  absl::Duration BarredFor(const std::string& name, absl::Time now) const;
  // "host a is barred for 8 s after 3 failures"; "" if it is not.
  std::string Sentence(const std::string& name, absl::Time now) const;
  // Those barred at `now`.
  google::protobuf::RepeatedPtrField<v1::BarredHost> List(absl::Time now) const;

 private:
  const v1::HostRecord* Find(const std::string& name) const;
  void Forget(absl::Time now);

  absl::Duration least_;
  absl::Duration most_;
  absl::btree_map<std::string, v1::HostRecord> hosts_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_BARRED_HOSTS_H_
