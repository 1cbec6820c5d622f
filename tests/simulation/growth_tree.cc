// The leaders' part of the growth page: real pages, channels, links and frames, over pipes in memory that count.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/simulation/growth_phase.h"
#include "worker/core/hosts.h"
#include "worker/order/epoch_page.h"
#include "worker/order/hosts_channel.h"
#include "worker/order/relay_link.h"
#include "worker/order/relay_stream.h"
#include "worker/transport/tcp/poller.h"

namespace farandole {
namespace {

constexpr int kRanksPerHost = 8;

// Both directions between two leaders.
struct Pipe {
  // Towards each end.
  std::string bytes[2];
  uint64_t frames[2] = {0, 0};
};

class PipeStream final : public RelayStream {
 public:
  // shared: with the other end.
  PipeStream(std::shared_ptr<Pipe> pipe, int end, GrowthPhase* owner)
      : pipe_(std::move(pipe)), end_(end), owner_(owner) {}
  absl::StatusOr<size_t> Send(absl::string_view bytes) override {
    pipe_->bytes[1 - end_].append(bytes.data(), bytes.size());
    const uint64_t before = owner_->out.messages;
    Count(bytes, &owner_->out);
    pipe_->frames[1 - end_] += owner_->out.messages - before;
    return bytes.size();
  }
  absl::StatusOr<size_t> Receive(char* to, size_t most) override {
    std::string& bytes = pipe_->bytes[end_];
    const size_t taken = std::min(most, bytes.size());
    std::memcpy(to, bytes.data(), taken);
    owner_->in.bytes += taken;
    owner_->in.messages += std::exchange(pipe_->frames[end_], 0);
    bytes.erase(0, taken);
    return taken;
  }
  void WantRead(bool want) override { (void)want; }
  void WantWrite(bool want) override { (void)want; }

 private:
  // Whole frames are sent, each with its length in front.
  static void Count(absl::string_view bytes, Traffic* traffic) {
    while (!bytes.empty()) {
      uint32_t length = 0;
      std::memcpy(&length, bytes.data(), sizeof(length));
      traffic->Add(length);
      bytes.remove_prefix(length);
    }
  }

  const std::shared_ptr<Pipe> pipe_;
  const int end_;
  GrowthPhase* const owner_;
};

class NoPoller final : public Poller {
 public:
  bool Poll() override { return true; }
  void Rest() override {}
};

class Tree {
 public:
  explicit Tree(int ranks)
      : hosts_(Hosts::WithSizes(std::vector<int>(ranks / kRanksPerHost, kRanksPerHost))), costs_(hosts_.count()) {
    const size_t bytes = EpochPage::Bytes(kRanksPerHost, kRings);
    std::map<std::pair<int, int>, std::shared_ptr<Pipe>> pipes;
    for (int host = 0; host < hosts_.count(); ++host) {
      memory_.emplace_back(new (std::align_val_t(64)) char[bytes]());
      for (int local = 0; local < kRanksPerHost; ++local) {
        pages_.push_back(
            std::make_unique<EpochPage>(memory_.back().get(), local, kRanksPerHost, hosts_.Leader(host), kRings));
      }
      const int leader = hosts_.Leader(host);
      std::vector<std::unique_ptr<RelayLink>> links;
      for (const int peer : HostsChannel::PeersOf(hosts_, leader)) {
        const int end = peer > leader ? 0 : 1;
        std::shared_ptr<Pipe>& pipe = pipes[{std::min(peer, leader), std::max(peer, leader)}];
        if (pipe == nullptr) pipe = std::make_shared<Pipe>();
        links.push_back(std::make_unique<RelayLink>(peer, std::make_unique<PipeStream>(pipe, end, &costs_[host])));
      }
      leaders_.push_back(std::make_unique<HostsChannel>(hosts_, leader, pages_[leader].get(), &poller_,
                                                        std::move(links), std::vector<std::string>(ranks),
                                                        [](int, const std::string&) {}));
    }
  }

  void Step(int names) {
    for (int rank = 0; rank < hosts_.size(); ++rank) {
      for (int name = 0; name < names; ++name) {
        Post post;
        post.slot = static_cast<uint32_t>(name + 1);
        FD_CHECK(pages_[rank]->TryPost(post)) << "the ring has room for a step";
      }
    }
    int posts = 0;
    while (posts < hosts_.size() * names) {
      RelayAll();
      const double begin = CpuMs();
      Post post;
      for (int rank = 0; rank < hosts_.size(); ++rank) {
        while (leaders_[0]->ReadPost(rank, &post)) ++posts;
      }
      costs_[0].cpu_ms += CpuMs() - begin;
    }
    Entry entry;
    entry.items.resize(names);
    std::vector<int> all(hosts_.size());
    std::iota(all.begin(), all.end(), 0);
    const double begin = CpuMs();
    FD_CHECK(leaders_[0]->TryAppend(entry, all)) << "the log is empty";
    costs_[0].cpu_ms += CpuMs() - begin;
    while (!leaders_.back()->ReadEntry(&entry)) RelayAll();
  }

  // Rank 0, and of each level below the leader with the most bytes.
  std::vector<GrowthPhase> Worst() {
    std::vector<GrowthPhase> worst;
    for (int host = 0; host < hosts_.count(); ++host) {
      size_t level = 0;
      for (int above = host; above > 0; above = (above - 1) / HostsChannel::kFanOut) ++level;
      if (worst.size() <= level) worst.resize(level + 1);
      GrowthPhase& cost = costs_[host];
      if (cost.in.bytes + cost.out.bytes <= worst[level].in.bytes + worst[level].out.bytes) continue;
      worst[level] = cost;
      worst[level].name =
          level == 0 ? "rank 0" : absl::StrCat("a leader ", level, level == 1 ? " hop" : " hops", " below");
    }
    return worst;
  }

 private:
  static constexpr EpochRings kRings = {256, 1024, false};
  struct FreeAligned {
    void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
  };

  void RelayAll() {
    for (int host = hosts_.count() - 1; host >= 0; --host) {
      const double begin = CpuMs();
      FD_CHECK(leaders_[host]->Relay().ok()) << "nothing is wrong with a pipe";
      costs_[host].cpu_ms += CpuMs() - begin;
    }
  }

  const Hosts hosts_;
  NoPoller poller_;
  std::vector<GrowthPhase> costs_;
  std::vector<std::unique_ptr<char[], FreeAligned>> memory_;
  std::vector<std::unique_ptr<EpochPage>> pages_;       // by rank
  std::vector<std::unique_ptr<HostsChannel>> leaders_;  // by host
};

}  // namespace

std::vector<GrowthPhase> MeasureTree(int ranks, int names) {
  Tree tree(ranks);
  tree.Step(names);
  return tree.Worst();
}

}  // namespace farandole
