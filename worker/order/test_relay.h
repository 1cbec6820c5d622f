#ifndef FARANDOLE_WORKER_ORDER_TEST_RELAY_H_
#define FARANDOLE_WORKER_ORDER_TEST_RELAY_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/control/control_loop.h"
#include "worker/core/hosts.h"
#include "worker/order/epoch_page.h"
#include "worker/order/hosts_channel.h"
#include "worker/transport/tcp/socket_set.h"

namespace farandole {

// The hosts of an epoch in this process, for tests: memory for each host, a page and a channel for each rank, and
// connected sockets between the leaders. Borrowed parts live as long as the object.
class TestRelay {
 public:
  // A loss that a channel has reported.
  struct Loss {
    int reporter;
    int peer;
    std::string evidence;
  };
  struct Options {
    // Bytes of a host's memory behind its page.
    std::function<size_t(int ranks)> spare_bytes;
    // Called where a channel reports a loss; else they are collected, which only one thread may do.
    std::function<void(const Loss& loss)> on_loss;
  };
  // `sizes`: ranks by host.
  explicit TestRelay(const std::vector<int>& sizes) : TestRelay(sizes, Options()) {}
  TestRelay(const std::vector<int>& sizes, Options options);
  ~TestRelay();
  TestRelay(const TestRelay&) = delete;
  TestRelay& operator=(const TestRelay&) = delete;

  const Hosts& hosts() const { return hosts_; }
  int size() const { return hosts_.size(); }
  HostsChannel& channel(int rank) { return *ranks_[rank].channel; }
  EpochPage& page(int rank) { return *ranks_[rank].page; }
  SocketSet& sockets(int rank) { return *ranks_[rank].sockets; }
  // The memory of the rank's host behind its page, on the boundary of a system page.
  char* spare(int rank) { return memory_[hosts_.HostOf(rank)] + page_bytes_[hosts_.HostOf(rank)]; }
  // Ends the rank's sockets, as its death does.
  void Kill(int rank) { ranks_[rank].channel.reset(); }
  bool Lives(int rank) const { return ranks_[rank].channel != nullptr; }
  const std::vector<Loss>& losses() const { return losses_; }
  // Relays on all leaders until nothing moves any more; the first error.
  absl::Status RelayAll();

 private:
  struct Rank {
    std::unique_ptr<EpochPage> page;
    std::unique_ptr<SocketSet> sockets;
    std::unique_ptr<HostsChannel> channel;
  };

  const Hosts hosts_;
  const Options options_;
  std::vector<size_t> page_bytes_;
  std::vector<size_t> bytes_;
  std::vector<char*> memory_;
  std::unique_ptr<ControlLoop> loop_;
  std::vector<Rank> ranks_;
  std::vector<Loss> losses_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_TEST_RELAY_H_
