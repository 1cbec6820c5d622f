#ifndef FARANDOLE_SERVER_QUEUE_ENDED_LAUNCHES_H_
#define FARANDOLE_SERVER_QUEUE_ENDED_LAUNCHES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/registry/job_key.h"

namespace farandole {

// How launches that waited have ended, for those of the same launch that ask later. Each is known for kEndKept; beyond
// the bounds the one that ended first goes. Each call takes logarithmic time. Owned by LaunchQueue; one thread at a
// time.
class EndedLaunches {
 public:
  static constexpr absl::Duration kEndKept = absl::Minutes(2);

  // The most of a tenant, and in all.
  EndedLaunches(size_t most_of_tenant, size_t most) : most_of_tenant_(most_of_tenant), most_(most) {}

  // `now` does not decrease.
  void Add(const JobKey& key, const v1::Launch& launch, const absl::Status& status, absl::Time now);
  // Null: nothing is known of its end. Good until the next call.
  const absl::Status* Find(const JobKey& key, const v1::Launch& launch) const;
  // Forgets those that ended long ago.
  void Forget(absl::Time now);

  size_t size() const { return ends_.size(); }

 private:
  // A nonce alone, which others may know, names no launch.
  struct Name {
    JobKey key;
    std::string nonce;
    std::string token_id;

    bool operator<(const Name& other) const;
  };
  struct End {
    Name name;
    absl::Status status;
    absl::Time at;
  };
  void Erase(uint64_t number);

  const size_t most_of_tenant_;
  const size_t most_;
  uint64_t last_ = 0;
  // By number, which is the order in which they ended.
  std::map<uint64_t, End> ends_;
  std::map<Name, uint64_t> numbers_;
  std::map<std::string, std::set<uint64_t>> of_tenant_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_ENDED_LAUNCHES_H_
