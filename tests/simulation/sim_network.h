#ifndef FARANDOLE_TESTS_SIMULATION_SIM_NETWORK_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_NETWORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/simulation/sim_process.h"
#include "tests/simulation/virtual_time.h"

namespace farandole {

class SimConnection;

// The network between the hosts of a simulation, which may be cut from each other for a while. Data on its way then
// arrives afterwards, as over TCP, unless the connection has been given up.
class SimNetwork {
 public:
  explicit SimNetwork(VirtualTime* time) : time_(time) {}

  VirtualTime& time() { return *time_; }
  void Cut(const std::string& a, const std::string& b, int64_t for_ns);
  // Nothing is cut any more.
  void Heal() { cut_until_ns_.clear(); }
  bool IsCut(const std::string& a, const std::string& b) const;
  // The pairs of hosts that are cut from each other now.
  std::vector<std::pair<std::string, std::string>> Cuts() const;
  // How long something takes from now.
  int64_t Delay(const std::string& a, const std::string& b);
  void Add(const std::shared_ptr<SimConnection>& connection);
  // Breaks one of the connections between hosts; returns the pids at its ends, or none.
  std::vector<int64_t> BreakAny();

 private:
  // Where its hosts are cut from each other for longer than its limit.
  void BreakIfSilent(const std::shared_ptr<SimConnection>& connection);
  static std::pair<std::string, std::string> Key(const std::string& a, const std::string& b) {
    return a < b ? std::make_pair(a, b) : std::make_pair(b, a);
  }

  VirtualTime* const time_;
  std::map<std::pair<std::string, std::string>, int64_t> cut_until_ns_;
  // Shared with its ends, and gone with them.
  std::vector<std::weak_ptr<SimConnection>> connections_;
};

// Bytes between two processes, in order and both ways. As over TCP a receiver that does not read stops the sender, and
// the end of a process ends the connection. Shared by its ends and by the bytes on their way.
class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  // `window`: bytes that may be unread. Between hosts that are cut from each other for longer than
  // `silence_limit_ns` it breaks.
  SimConnection(SimNetwork* network, std::array<std::string, 2> hosts, size_t window, int64_t silence_limit_ns)
      : network_(network), hosts_(std::move(hosts)), window_(window), silence_limit_ns_(silence_limit_ns) {}

  // `on_news`: something has come, or there is room. A side may attach later than the other.
  void Attach(int side, const std::shared_ptr<SimProcess>& process, std::function<void()> on_news);
  // Returns how many bytes it took. An error: nothing will be.
  absl::StatusOr<size_t> Send(int side, absl::string_view bytes);
  // Returns the bytes that have come, at most `most`. An error, which says why: nothing will come.
  absl::StatusOr<size_t> Receive(int side, char* to, size_t most);
  void Close(int side);
  void Break(const std::string& how);

  int64_t silence_limit_ns() const { return silence_limit_ns_; }
  const std::array<std::string, 2>& hosts() const { return hosts_; }
  bool IsBetween(const std::pair<std::string, std::string>& hosts) const;
  // The processes at its ends, if both are attached and it is open; else none.
  std::vector<int64_t> Pids() const;

 private:
  struct Side {
    int64_t pid = 0;
    std::function<void()> on_news;
    std::string arrived;
    InOrder lane;  // from this side
    bool is_closed = false;
    std::string ending;  // why nothing more comes
  };
  void Tell(int side, const std::string& ending);
  void News(int side);

  SimNetwork* const network_;
  const std::array<std::string, 2> hosts_;
  const size_t window_;
  const int64_t silence_limit_ns_;
  std::array<Side, 2> sides_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_NETWORK_H_
