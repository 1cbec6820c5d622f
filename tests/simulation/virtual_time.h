#ifndef FARANDOLE_TESTS_SIMULATION_VIRTUAL_TIME_H_
#define FARANDOLE_TESTS_SIMULATION_VIRTUAL_TIME_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace farandole {

// The time of a simulation, its future events, and its chances, all from one seed. One thread.
class VirtualTime {
 public:
  explicit VirtualTime(uint32_t seed);

  // Of the simulation that runs on this thread; what the simulated programs take for CLOCK_MONOTONIC.
  static int64_t NowNs();
  static absl::Time Now() { return absl::FromUnixSeconds(1'800'000'000) + absl::Nanoseconds(NowNs()); }

  // Runs `event` in `delay_ns`; events of the same moment run in the order of the calls.
  void After(int64_t delay_ns, std::function<void()> event);
  // Goes on to the next event and runs it; false: there is none before `limit_ns`.
  bool Step(int64_t limit_ns);

  // Both inclusive.
  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  bool OneIn(int times) { return Between(1, times) == 1; }
  // By how much a wall clock is set: seconds, or hours, either way.
  absl::Duration ClockStep() { return OneIn(2) ? absl::Seconds(Between(-90, 90)) : absl::Hours(Between(-48, 48)); }
  std::mt19937& random() { return random_; }

 private:
  struct Event {
    int64_t at_ns;
    uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : number > other.number;
    }
  };

  std::mt19937 random_;
  int64_t now_ns_ = 0;
  uint64_t events_ = 0;
  std::priority_queue<Event> queue_;
};

constexpr int64_t kMicrosecond = 1'000;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_VIRTUAL_TIME_H_
