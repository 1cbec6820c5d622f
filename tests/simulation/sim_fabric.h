#ifndef FARANDOLE_TESTS_SIMULATION_SIM_FABRIC_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_FABRIC_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/simulation/sim_process.h"
#include "worker/ready_channel.h"
#include "worker/transport/transport.h"

namespace farandole {

class SimFabric;

// Readiness and order between the ranks of a SimFabric, as messages that take their time. Full queues are short, so
// that they occur.
class SimChannel final : public ReadyChannel {
 public:
  SimChannel(SimFabric* fabric, int rank);

  bool TryPost(const Post& post) override;
  bool ReadEntry(Entry* entry) override;
  bool HasNews() const override;
  bool ReadPost(int rank, Post* post) override;
  bool TryAppend(Entry& entry, absl::Span<const int> concerned) override;
  bool HasLeft(int rank) const override;
  bool IsNeeded() const override;
  Doorbell& doorbell() override { return bell_; }
  void Beat(uint64_t beat, uint64_t batches) override;
  Pulse ReadPulse(int rank) const override;
  void StateEnd(const absl::Status& reason) override;
  absl::Status StatedEnd(int rank) const override;

 private:
  friend class SimFabric;

  SimFabric* const fabric_;
  const int rank_;
  Doorbell bell_{};
  int unread_posts_ = 0;                 // of this rank
  std::vector<std::deque<Post>> posts_;  // rank 0: by rank
  std::deque<Entry> log_;
  // Rank 0.
  uint64_t appended_ = 0;
  std::vector<uint64_t> read_;  // by rank, as far as it is known
};

// Bytes between the ranks of a SimFabric.
class SimTransport final : public Transport {
 public:
  SimTransport(SimFabric* fabric, int rank);
  ~SimTransport() override { *is_alive_ = false; }

  absl::string_view name() const override { return "simulated"; }
  int rank() const override { return rank_; }
  int size() const override;
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  absl::StatusOr<bool> Progress() override;
  void Abort(absl::Status reason) override;

 private:
  void Match(int peer);

  SimFabric* const fabric_;
  const int rank_;
  absl::Status error_;
  bool moved_ = false;
  // Shared with deliveries on their way, which touch nothing once it is false.
  const std::shared_ptr<bool> is_alive_;
  std::vector<std::deque<std::string>> arrived_;
  std::vector<std::deque<Transfer*>> receives_;
};

// What the ranks of one epoch share: the network between them. A rank may come later than what is sent to it.
class SimFabric {
 public:
  SimFabric(VirtualTime* time, int size) : time_(time), ranks_(size) {}

  // What a rank is reached by; `wake` has it look.
  struct End {
    std::shared_ptr<SimProcess> process;
    SimChannel* channel = nullptr;
    SimTransport* transport = nullptr;
    std::function<void()> wake;
  };
  void Enter(int rank, End end);
  // The rank's objects go away.
  void Exit(int rank) { ranks_[rank].reset(); }

  int size() const { return static_cast<int>(ranks_.size()); }
  VirtualTime& time() { return *time_; }
  // Runs `arrive` at `to`, in order with what `from` sent in this lane before.
  void Deliver(int from, int to, int lane, std::function<void(const End&)> arrive);
  void Wake(int rank);
  // The network between hosts is cut for a while: what is on its way arrives afterwards, as over TCP.
  void CutHosts(int64_t for_ns) { cut_until_ns_ = VirtualTime::NowNs() + for_ns; }
  bool AreOnOneHost(int a, int b) const;
  // Whether the log says so that has come to any rank on the host of `observer`, since they share it.
  bool HasLeft(int observer, int rank) const;
  void SetLeft(int observer, int rank) { has_left_.insert({observer, rank}); }
  ReadyChannel::Pulse& pulse(int rank) { return pulses_[rank]; }
  absl::Status& end(int rank) { return ends_[rank]; }

 private:
  VirtualTime* const time_;
  std::vector<std::unique_ptr<End>> ranks_;
  std::map<int, std::vector<std::function<void(const End&)>>> early_;
  std::map<std::tuple<int, int, int>, InOrder> lanes_;
  std::map<int, ReadyChannel::Pulse> pulses_;
  std::map<int, absl::Status> ends_;
  int64_t cut_until_ns_ = 0;
  std::set<std::pair<int, int>> has_left_;  // to whom the log has told it, and of whom
  std::map<int, std::string> hosts_;        // by rank, also of those that have gone
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_FABRIC_H_
