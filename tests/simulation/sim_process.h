#ifndef FARANDOLE_TESTS_SIMULATION_SIM_PROCESS_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/virtual_time.h"

namespace farandole {

// A process of the simulation: its deliveries wait while it is stopped, and are lost once it is dead. Shared by its
// worker and by events on their way to it.
class SimProcess : public std::enable_shared_from_this<SimProcess> {
 public:
  SimProcess(VirtualTime* time, int64_t pid, std::string host) : time_(time), pid_(pid), host_(std::move(host)) {}

  int64_t pid() const { return pid_; }
  const std::string& host() const { return host_; }
  bool is_dead() const { return dead_; }
  bool is_stopped() const { return stopped_; }

  // Runs `event` in this process after a delay.
  void After(int64_t delay_ns, std::function<void()> event) {
    time_->After(delay_ns, [self = shared_from_this(), event = std::move(event)] { self->Deliver(event); });
  }
  // Calls `on_exit` when the process has ended.
  void WatchExit(std::function<void()> on_exit) { exit_watches_.push_back(std::move(on_exit)); }

  void Stop() { stopped_ = true; }
  void Continue() {
    stopped_ = false;
    for (const auto& event : std::exchange(held_, {})) Deliver(event);
  }
  void Die() {
    if (std::exchange(dead_, true)) return;
    held_.clear();
    for (const auto& watch : std::exchange(exit_watches_, {})) watch();
  }

 private:
  void Deliver(const std::function<void()>& event) {
    if (dead_) return;
    stopped_ ? held_.push_back(event) : event();
  }

  VirtualTime* const time_;
  const int64_t pid_;
  const std::string host_;
  bool dead_ = false;
  bool stopped_ = false;
  std::vector<std::function<void()>> held_;
  std::vector<std::function<void()>> exit_watches_;
};

// Delays for what must arrive in the order in which it was sent.
class InOrder {
 public:
  // A delay from now that is at least `delay_ns`, and not before earlier deliveries.
  int64_t Next(int64_t delay_ns) {
    const int64_t now_ns = VirtualTime::NowNs();
    last_ns_ = std::max(last_ns_, now_ns + delay_ns);
    return last_ns_ - now_ns;
  }

 private:
  int64_t last_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_PROCESS_H_
