#ifndef FARANDOLE_WORKER_MEASURE_CLOCK_MATCH_H_
#define FARANDOLE_WORKER_MEASURE_CLOCK_MATCH_H_

#include <cstdint>

namespace farandole {

// By how much a peer's clock is ahead of one's own, from messages and their answers, as in NTP. The peer read its clock
// between the sending of the message and the arrival of the answer. The middle of the two is taken, which is wrong by
// at most half of their distance. The best answer counts; its error grows with its age, as clocks drift.
class ClockMatch {
 public:
  // The bound of the drift between two quartz clocks: several times the usual one.
  static constexpr int64_t kMostDriftPerMillion = 100;

  // The answer to a message of `sent_ns` came at `received_ns`, and its writer's clock stood at `other_ns`.
  void Take(int64_t sent_ns, int64_t other_ns, int64_t received_ns) {
    const int64_t error_ns = (received_ns - sent_ns) / 2 + 1;
    if (error_ns < 1 || (is_known() && error_ns > ErrorAt(received_ns))) return;
    ahead_ns_ = other_ns - sent_ns - (received_ns - sent_ns) / 2;
    error_ns_ = error_ns;
    at_ns_ = received_ns;
  }

  bool is_known() const { return error_ns_ != 0; }
  int64_t ahead_ns() const { return ahead_ns_; }
  // The most by which ahead_ns is wrong at a time of one's own clock.
  int64_t ErrorAt(int64_t now_ns) const {
    const int64_t age_ns = now_ns > at_ns_ ? now_ns - at_ns_ : at_ns_ - now_ns;
    return error_ns_ + age_ns / 1'000'000 * kMostDriftPerMillion;
  }

 private:
  int64_t ahead_ns_ = 0;
  int64_t error_ns_ = 0;
  int64_t at_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_CLOCK_MATCH_H_
