#ifndef FARANDOLE_TESTS_SIMULATION_SIM_EPOCH_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_EPOCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_process.h"
#include "worker/core/doorbell.h"
#include "worker/core/hosts.h"
#include "worker/order/epoch_page.h"
#include "worker/order/hosts_channel.h"
#include "worker/transport/shm/epoch_memory.h"

namespace farandole {

// How much fits where; small, so that everything is full at times.
struct SimBounds {
  EpochRings rings;
  HostsChannel::Bounds tree = {HostsChannel::kFanOut, HostsChannel::kMostUnread};
  size_t link_bytes = 1 << 20;
  size_t window_bytes = 1 << 16;
  // Ranks of a host move bulk data by sockets as well.
  bool bulk_is_apart = false;

  static SimBounds Random(VirtualTime* time);
};

// The place where the ranks of one epoch find each other: the memory of each host, and the connections. Each rank
// arrives in its own time.
class SimEpoch {
 public:
  enum class Kind { kRelay, kData };

  SimEpoch(SimNetwork* network, Hosts hosts, std::vector<std::string> host_ids, SimBounds bounds);

  const Hosts& hosts() const { return hosts_; }
  const SimBounds& bounds() const { return bounds_; }
  char* MemoryOf(int host) { return memory_[host]->data(); }
  // For the bulk data of its ranks.
  char* BulkMemoryOf(int host) { return bulk_memory_[host]->data(); }

  // `wake` is called when others are seen to arrive, and when its bell has rung.
  void Arrive(int rank, const std::shared_ptr<SimProcess>& process, std::function<void()> wake);
  // Whether `rank` knows that `peer` has arrived.
  bool Sees(int rank, int peer) const { return seen_[rank].count(peer) > 0; }
  // Its bell is rung from now on.
  void Watch(int rank, const Doorbell* bell) { ranks_[rank].bell = bell; }
  // Whether the bell of `rank` has rung and was not answered.
  bool HasRung(int rank) const { return ranks_[rank].bell->Ticket() != ranks_[rank].ticket; }
  void Answer(int rank) { ranks_[rank].ticket = ranks_[rank].bell->Ticket(); }
  // Wakes those on a host whose bells have rung since the last call.
  void AnswerBells(int host);

  // The connection of `rank` with `peer`, and the side of it that is the rank's.
  std::pair<std::shared_ptr<SimConnection>, int> Connect(int rank, int peer, Kind kind);

 private:
  struct Rank {
    std::function<void()> wake;
    const Doorbell* bell = nullptr;
    uint32_t ticket = 0;
  };

  SimNetwork* const network_;
  const Hosts hosts_;
  const std::vector<std::string> host_ids_;
  const SimBounds bounds_;
  std::vector<std::unique_ptr<EpochMemory>> memory_;
  std::vector<std::unique_ptr<EpochMemory>> bulk_memory_;
  std::vector<Rank> ranks_;
  std::vector<std::set<int>> seen_;
  // By kind and ranks; shared with their ends.
  std::map<std::tuple<Kind, int, int>, std::shared_ptr<SimConnection>> connections_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_EPOCH_H_
