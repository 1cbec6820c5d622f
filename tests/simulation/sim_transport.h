#ifndef FARANDOLE_TESTS_SIMULATION_SIM_TRANSPORT_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/sim_epoch.h"
#include "worker/transport/transport.h"

namespace farandole {

// Moves bulk data between hosts over simulated connections, which are made when they are first needed.
class SimTransport final : public Transport {
 public:
  // `on_news`: there may be something to do.
  SimTransport(SimEpoch* epoch, int rank, std::shared_ptr<SimProcess> process, std::function<void()> on_news);
  ~SimTransport() override;

  absl::string_view name() const override { return "simulated"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  absl::StatusOr<bool> Progress() override;
  int lost_peer() const override { return lost_peer_; }
  void Abort(absl::Status reason) override;

 private:
  // One direction of a connection: each transfer is preceded by its length.
  struct Lane {
    std::deque<Transfer*> transfers;
    size_t length_done = 0;
    char length[8];
  };
  struct Peer {
    std::shared_ptr<SimConnection> connection;
    int side = 0;
    Lane out;
    Lane in;
  };
  Peer& PeerOf(int peer);
  // Moves what can be moved of a lane's first transfer; false: nothing.
  absl::StatusOr<bool> Move(Peer* peer, Lane* lane, bool is_out);

  SimEpoch* const epoch_;
  const int rank_;
  const std::shared_ptr<SimProcess> process_;
  const std::function<void()> on_news_;
  std::vector<Peer> peers_;
  absl::Status error_;
  int lost_peer_ = -1;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_TRANSPORT_H_
