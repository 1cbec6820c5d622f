#ifndef FARANDOLE_TESTS_SIMULATION_ELASTIC_EPOCH_H_
#define FARANDOLE_TESTS_SIMULATION_ELASTIC_EPOCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

class ElasticProcess;
struct ElasticSite;

// An epoch of a simulated elastic job. Its members meet, get the most advanced state,
// and add up step by step for as long as all of them are there and reach each other. It tells the coordinator what they
// see, and holds the epoch to the promises about each one.
class ElasticEpoch {
 public:
  // As its first member sees it.
  ElasticEpoch(ElasticSite* site, const v1::Epoch& epoch);

  // A member hears that the epoch has formed; its rank.
  int Enter(ElasticProcess* process, const std::string& incarnation, const v1::Epoch& heard);
  // A member is in it no more.
  void Leave(int rank);
  // A member's process has died.
  void OnDeath(int rank);

  size_t size() const { return incarnations_.size(); }
  int64_t steps() const { return steps_; }

 private:
  void Check(const v1::Epoch& epoch);
  // Goes on if all are there, and looks again soon if not.
  void Look();
  bool AreAllThere() const;
  void Begin();
  void Step();
  void Beat();
  // Hosts that have been cut from each other for too long give each other up.
  void GiveUpCutHosts();
  void ReportLost(int reporter, int lost, const std::string& evidence);
  // The first rank of the host that is there; -1: none.
  int Speaker(const std::string& host) const;

  ElasticSite* const site_;
  const uint64_t number_;
  const size_t hash_;
  std::vector<std::string> incarnations_;
  absl::flat_hash_map<std::string, int> rank_of_;
  std::map<std::string, std::vector<int>> hosts_;
  // By rank; null: not yet, or not any more.
  std::vector<ElasticProcess*> members_;
  size_t entered_ = 0;
  size_t left_ = 0;
  bool has_begun_ = false;
  bool is_broken_ = false;
  int64_t steps_ = 0;  // taken here
  uint64_t beat_ = 0;
  // Since when they are seen to be cut from each other.
  std::map<std::pair<std::string, std::string>, int64_t> cut_since_ns_;
  std::set<std::pair<std::string, std::string>> given_up_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_ELASTIC_EPOCH_H_
