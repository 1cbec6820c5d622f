#ifndef FARANDOLE_SERVER_DIAGNOSIS_HOST_LINKS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_HOST_LINKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/diagnosis/memory_budget.h"
#include "server/diagnosis/recent_slots.h"

namespace farandole {

// How an epoch's hosts have sent bulk data to each other in the last half minute. Pure. Memory is taken from the budget
// for each link, some 40 bytes; where it is refused, and beyond kMostPeers of a host, a link is not kept.
class HostLinks {
 public:
  static constexpr size_t kMostPeers = 32;

  // From one host to another one.
  struct Link {
    uint32_t from = 0;
    uint32_t to = 0;
    // How much of the time data was under way.
    double busy = 0;
    // Bytes delivered each second, and each second in which data was under way.
    double bytes = 0;
    double rate = 0;
  };

  // `budget`: null where all may be kept; outlives this object.
  HostLinks(size_t hosts, MemoryBudget* budget) : memory_(budget), hosts_(hosts) {}

  // A heartbeat of that host that is within its bounds.
  void Take(uint32_t host, const v1::Measures& measures, absl::Duration since_began);
  // The links that have carried something lately.
  std::vector<Link> Recent() const;

 private:
  using Sums = std::array<float, RecentSlots::kSlots>;
  struct Peer {
    uint32_t host = 0;
    Sums busy = {};
    Sums bytes = {};
  };
  struct Host {
    Sums seconds = {};
    std::vector<Peer> peers;
  };

  // Null: it is not kept.
  Peer* Find(Host* from, uint32_t to);

  MemoryShare memory_;
  std::vector<Host> hosts_;
  RecentSlots slots_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_HOST_LINKS_H_
