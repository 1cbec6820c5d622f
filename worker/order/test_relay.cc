#include "worker/order/test_relay.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/order/socket_stream.h"

namespace farandole {
namespace {

size_t WholePages(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }

}  // namespace

TestRelay::TestRelay(const std::vector<int>& sizes, Options options)
    : hosts_(Hosts::WithSizes(sizes)), options_(std::move(options)) {
  absl::StatusOr<std::unique_ptr<ControlLoop>> loop = ControlLoop::Create("test-relay");
  FD_CHECK(loop.ok()) << loop.status().message();
  loop_ = *std::move(loop);
  for (const int ranks : sizes) {
    page_bytes_.push_back(WholePages(EpochPage::Bytes(ranks)));
    bytes_.push_back(page_bytes_.back() + (options_.spare_bytes ? WholePages(options_.spare_bytes(ranks)) : 0));
    void* memory = mmap(nullptr, bytes_.back(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FD_CHECK(memory != MAP_FAILED) << "no memory for a test's host";
    memory_.push_back(static_cast<char*>(memory));
  }
  ranks_.resize(size());
  std::vector<std::string> who;
  for (int rank = 0; rank < size(); ++rank) {
    const int host = hosts_.HostOf(rank);
    ranks_[rank].page =
        std::make_unique<EpochPage>(memory_[host], hosts_.LocalIndex(rank), hosts_.RanksOn(host), hosts_.Leader(host));
    absl::StatusOr<std::unique_ptr<SocketSet>> sockets = SocketSet::Create(loop_.get(), &ranks_[rank].page->doorbell());
    FD_CHECK(sockets.ok()) << sockets.status().message();
    ranks_[rank].sockets = *std::move(sockets);
    who.push_back(absl::StrCat("rank ", rank));
  }
  // The side that connects first makes both ends.
  std::map<std::pair<int, int>, int> ends;
  for (int rank = 0; rank < size(); ++rank) {
    std::vector<std::unique_ptr<RelayLink>> links;
    for (const int peer : HostsChannel::PeersOf(hosts_, rank)) {
      if (ends.count({rank, peer}) == 0) {
        int pair[2];
        FD_CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        ends[{rank, peer}] = pair[0];
        ends[{peer, rank}] = pair[1];
      }
      absl::StatusOr<std::unique_ptr<SocketStream>> stream =
          SocketStream::Open(ends[{rank, peer}], ranks_[rank].sockets.get());
      FD_CHECK(stream.ok()) << stream.status().message();
      links.push_back(std::make_unique<RelayLink>(peer, *std::move(stream)));
    }
    ranks_[rank].channel =
        std::make_unique<HostsChannel>(hosts_, rank, ranks_[rank].page.get(), ranks_[rank].sockets.get(),
                                       std::move(links), who, [this, rank](int peer, const std::string& evidence) {
                                         const Loss loss = {rank, peer, evidence};
                                         options_.on_loss ? options_.on_loss(loss) : losses_.push_back(loss);
                                       });
  }
}

TestRelay::~TestRelay() {
  ranks_.clear();
  for (size_t host = 0; host < memory_.size(); ++host) munmap(memory_[host], bytes_[host]);
}

absl::Status TestRelay::RelayAll() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank& rank : ranks_) {
      if (rank.channel == nullptr || !rank.channel->Relays()) continue;
      const absl::StatusOr<bool> relayed = rank.channel->Relay();
      if (!relayed.ok()) return relayed.status();
      if (*relayed) moved = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace farandole
