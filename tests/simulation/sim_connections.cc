#include "tests/simulation/sim_connections.h"

#include <utility>

#include "tests/simulation/sim_transport.h"
#include "worker/order/relay_link.h"
#include "worker/order/relay_stream.h"
#include "worker/transport/hosts/hosts_transport.h"

namespace farandole {
namespace {

// One side of a SimConnection.
class SimStream final : public RelayStream {
 public:
  SimStream(std::shared_ptr<SimConnection> connection, int side) : connection_(std::move(connection)), side_(side) {}
  ~SimStream() override { connection_->Close(side_); }

  absl::StatusOr<size_t> Send(absl::string_view bytes) override { return connection_->Send(side_, bytes); }
  absl::StatusOr<size_t> Receive(char* to, size_t most) override { return connection_->Receive(side_, to, most); }
  // News tells of everything, once.
  void WantRead(bool want) override { (void)want; }
  void WantWrite(bool want) override { (void)want; }

 private:
  const std::shared_ptr<SimConnection> connection_;
  const int side_;
};

}  // namespace

bool SimConnections::Bell::Poll() {
  rests_ = false;
  return std::exchange(has_news_, false);
}

void SimConnections::Bell::Rest() {
  rests_ = true;
  if (has_news_) OnNews();
}

void SimConnections::Bell::OnNews() {
  has_news_ = true;
  if (!std::exchange(rests_, false)) return;
  owner_->page_->doorbell().Summon();
  owner_->epoch_->AnswerBells(owner_->host_);
}

SimConnections::SimConnections(SimEpoch* epoch, int rank, std::shared_ptr<SimProcess> process,
                               std::function<void()> wake)
    : epoch_(epoch),
      rank_(rank),
      host_(epoch->hosts().HostOf(rank)),
      process_(std::move(process)),
      bulk_hosts_(epoch->bounds().bulk_is_apart ? Hosts::Apart(epoch->hosts().size()) : epoch->hosts()) {
  epoch_->Arrive(rank, process_, std::move(wake));
}

int SimConnections::Missing() const {
  const Hosts& hosts = epoch_->hosts();
  const int leader = hosts.Leader(host_);
  if (!epoch_->Sees(rank_, leader)) return leader;
  for (int rank = leader; rank_ == leader && rank < leader + hosts.RanksOn(host_); ++rank) {
    if (!epoch_->Sees(rank_, rank)) return rank;
  }
  for (const int peer : HostsChannel::PeersOf(hosts, rank_, epoch_->bounds().tree.fan_out)) {
    if (!epoch_->Sees(rank_, peer)) return peer;
  }
  return -1;
}

void SimConnections::Meet(std::vector<std::string> who, OnLost on_lost) {
  const Hosts& hosts = epoch_->hosts();
  page_ = std::make_unique<EpochPage>(epoch_->MemoryOf(host_), hosts.LocalIndex(rank_), hosts.RanksOn(host_),
                                      hosts.Leader(host_), epoch_->bounds().rings);
  epoch_->Watch(rank_, &page_->doorbell());
  if (bulk_hosts_.count() == 1) {
    transport_ = MakeLocal();
    return;
  }
  MakeChannel(std::move(who), on_lost);
  auto remote = std::make_unique<SimTransport>(epoch_, rank_, process_, [this] { bell_.OnNews(); });
  transport_ =
      std::make_unique<HostsTransport>(bulk_hosts_, rank_, epoch_->bounds().bulk_is_apart ? nullptr : MakeLocal(),
                                       std::move(remote), std::move(on_lost));
}

void SimConnections::MakeChannel(std::vector<std::string> who, const OnLost& on_lost) {
  std::vector<std::unique_ptr<RelayLink>> links;
  for (const int peer : HostsChannel::PeersOf(epoch_->hosts(), rank_, epoch_->bounds().tree.fan_out)) {
    const auto [connection, side] = epoch_->Connect(rank_, peer, SimEpoch::Kind::kRelay);
    connection->Attach(side, process_, [this] { bell_.OnNews(); });
    links.push_back(
        std::make_unique<RelayLink>(peer, std::make_unique<SimStream>(connection, side), epoch_->bounds().link_bytes));
  }
  channel_ = std::make_unique<HostsChannel>(epoch_->hosts(), rank_, page_.get(), &bell_, std::move(links),
                                            std::move(who), on_lost, epoch_->bounds().tree);
}

std::unique_ptr<ShmTransport> SimConnections::MakeLocal() {
  std::vector<Doorbell*> bells;
  for (int local = 0; local < epoch_->hosts().RanksOn(host_); ++local) bells.push_back(&page_->bell(local));
  return std::make_unique<ShmTransport>(epoch_->BulkMemoryOf(host_), epoch_->hosts().LocalIndex(rank_),
                                        std::move(bells));
}

ReadyChannel& SimConnections::channel() {
  if (channel_ != nullptr) return *channel_;
  return *page_;
}

}  // namespace farandole
