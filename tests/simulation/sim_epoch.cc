#include "tests/simulation/sim_epoch.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "worker/transport/shm/shm_layout.h"

namespace farandole {
namespace {

std::unique_ptr<EpochMemory> MakeMemory(size_t bytes) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(bytes);
  FD_CHECK(memory.ok()) << memory.status().ToString();
  return *std::move(memory);
}

}  // namespace

SimBounds SimBounds::Random(VirtualTime* time) {
  SimBounds bounds;
  bounds.bulk_is_apart = time->OneIn(4);
  if (time->OneIn(4)) return bounds;
  constexpr int kFanOuts[] = {1, 2, 3, 16};
  bounds.rings.post_cells = uint64_t{1} << time->Between(2, 4);
  bounds.rings.log_cells = uint64_t{1} << time->Between(4, 6);
  bounds.rings.has_room = false;
  bounds.tree.fan_out = kFanOuts[time->Between(0, 3)];
  bounds.tree.most_unread = time->Between(1, 16);
  bounds.link_bytes = time->Between(1, 2000);
  bounds.window_bytes = time->Between(20, 5000);
  return bounds;
}

SimEpoch::SimEpoch(SimNetwork* network, Hosts hosts, std::vector<std::string> host_ids, SimBounds bounds)
    : network_(network),
      hosts_(std::move(hosts)),
      host_ids_(std::move(host_ids)),
      bounds_(bounds),
      ranks_(hosts_.size()),
      seen_(hosts_.size()) {
  for (int host = 0; host < hosts_.count(); ++host) {
    memory_.push_back(MakeMemory(EpochPage::Bytes(hosts_.RanksOn(host), bounds_.rings)));
    bulk_memory_.push_back(MakeMemory(ShmLayout::Bytes(hosts_.RanksOn(host))));
  }
}

void SimEpoch::Arrive(int rank, const std::shared_ptr<SimProcess>& process, std::function<void()> wake) {
  ranks_[rank].wake = std::move(wake);
  for (int other = 0; other < hosts_.size(); ++other) {
    process->After(network_->Delay(host_ids_[rank], host_ids_[other]), [this, rank, other] {
      seen_[other].insert(rank);
      if (ranks_[other].wake) ranks_[other].wake();
    });
  }
}

void SimEpoch::AnswerBells(int host) {
  for (int rank = hosts_.Leader(host); rank < hosts_.Leader(host) + hosts_.RanksOn(host); ++rank) {
    if (ranks_[rank].bell == nullptr || !HasRung(rank)) continue;
    Answer(rank);
    ranks_[rank].wake();
  }
}

std::pair<std::shared_ptr<SimConnection>, int> SimEpoch::Connect(int rank, int peer, Kind kind) {
  const int low = std::min(rank, peer), high = std::max(rank, peer);
  std::shared_ptr<SimConnection>& connection = connections_[{kind, low, high}];
  if (connection == nullptr) {
    const std::array<std::string, 2> between = {host_ids_[low], host_ids_[high]};
    // As SocketStream and TcpTransport have them.
    const int64_t limit = kind == Kind::kRelay ? 10 * kSecond : 60 * kSecond;
    connection = std::make_shared<SimConnection>(network_, between, bounds_.window_bytes, limit);
    network_->Add(connection);
  }
  return {connection, rank == low ? 0 : 1};
}

}  // namespace farandole
