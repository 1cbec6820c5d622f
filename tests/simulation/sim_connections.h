#ifndef FARANDOLE_TESTS_SIMULATION_SIM_CONNECTIONS_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_CONNECTIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/sim_epoch.h"
#include "worker/order/epoch_page.h"
#include "worker/order/hosts_channel.h"
#include "worker/order/ready_channel.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/tcp/poller.h"
#include "worker/transport/transport.h"

namespace farandole {

// Connects one rank with its epoch's peers, as Connections does: the real page, channel and tree of leaders, over
// memory and connections of the simulation.
class SimConnections {
 public:
  using OnLost = std::function<void(int peer, const std::string& evidence)>;

  SimConnections(SimEpoch* epoch, int rank, std::shared_ptr<SimProcess> process, std::function<void()> wake);

  // Whether all ranks are there that this rank must meet before it can begin; else the missing one, as -1 or a rank.
  int Missing() const;
  // Begins; once, when no rank is missing.
  void Meet(std::vector<std::string> who, OnLost on_lost);

  ReadyChannel& channel();
  Transport& transport() { return *transport_; }
  const Hosts& bulk_hosts() const { return bulk_hosts_; }

 private:
  // Rings the rank's bell as SocketSet does.
  class Bell final : public Poller {
   public:
    explicit Bell(SimConnections* owner) : owner_(owner) {}
    bool Poll() override;
    void Rest() override;
    void OnNews();

   private:
    SimConnections* const owner_;
    bool has_news_ = false;
    bool rests_ = false;
  };

  void MakeChannel(std::vector<std::string> who, const OnLost& on_lost);
  std::unique_ptr<ShmTransport> MakeLocal();

  SimEpoch* const epoch_;
  const int rank_;
  const int host_;
  const std::shared_ptr<SimProcess> process_;
  const Hosts bulk_hosts_;
  // In the order of their making; each uses those before it.
  std::unique_ptr<EpochPage> page_;
  Bell bell_{this};
  std::unique_ptr<HostsChannel> channel_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_CONNECTIONS_H_
