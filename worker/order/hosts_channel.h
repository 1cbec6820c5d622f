#ifndef FARANDOLE_WORKER_ORDER_HOSTS_CHANNEL_H_
#define FARANDOLE_WORKER_ORDER_HOSTS_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/core/hosts.h"
#include "worker/order/epoch_page.h"
#include "worker/order/ready_channel.h"
#include "worker/order/relay_link.h"
#include "worker/transport/tcp/poller.h"

namespace farandole {

// Readiness and order for an epoch on several hosts. The ranks of each host share an EpochPage, whose rank 0 is the
// host's leader; the leaders form a tree of fan-out 16, with rank 0 as its root. Posts go up the tree, where rank 0
// reads them; entries of the log go down, and each leader writes them into its host's page, in order, so that they lie
// at the same positions everywhere. All queues are bounded: a leader that cannot forward a message stops reading.
//
// Owned by its rank's worker. Threads as ReadyChannel says.
class HostsChannel final : public ReadyChannel {
 public:
  static constexpr int kFanOut = 16;
  // The most unread posts of one child, in rank 0's memory: as many as a rank may have on its page. Rank 0 reads them
  // whenever it orders.
  static constexpr size_t kMostUnread = 4096;
  // A simulation takes less, so that the tree is high, and full at times.
  struct Bounds {
    int fan_out;
    size_t most_unread;
  };
  // The ranks with which `rank` has a connection: none if it leads no host; else the leader above, unless it is rank 0,
  // and those below, ascending.
  static std::vector<int> PeersOf(const Hosts& hosts, int rank, int fan_out = kFanOut);

  // Called with the engine's role, at most once per peer: the connection is lost to `peer`, which has not left.
  // `evidence` as in PeerLost.
  using OnLost = std::function<void(int peer, const std::string& evidence)>;

  // `page` is this host's, seen by this rank, and made with the host's first rank; `links` are to PeersOf, in that
  // order; `poller` has the links' connections, and the transport's. All but the links are borrowed. `who` names ranks.
  HostsChannel(Hosts hosts, int rank, EpochPage* page, Poller* poller, std::vector<std::unique_ptr<RelayLink>> links,
               std::vector<std::string> who, OnLost on_lost, Bounds bounds = {kFanOut, kMostUnread});

  bool TryPost(const Post& post) override;
  bool ReadEntry(Entry* entry) override;
  bool HasNews() const override;
  bool ReadPost(int rank, Post* post) override;
  bool TryAppend(Entry& entry, absl::Span<const int> concerned) override;
  bool HasLeft(int rank) const override;
  bool IsNeeded() const override;
  Doorbell& doorbell() override { return page_->doorbell(); }
  bool SharesCpu() const override { return page_->SharesCpu(); }
  bool Relays() const override { return leads_ && hosts_.count() > 1; }
  bool ServesOthers() const override;
  absl::StatusOr<bool> Relay() override;
  bool Rest() override;
  void End(const absl::Status& reason) override;
  // For ranks of this host only.
  void Beat(const Pulse& pulse) override { page_->Beat(pulse); }
  Pulse ReadPulse(int rank) const override { return page_->ReadPulse(hosts_.LocalIndex(rank)); }
  RankRecord* record(int rank) const override { return page_->record(hosts_.LocalIndex(rank)); }
  void StateEnd(const absl::Status& reason) override { page_->StateEnd(reason); }
  absl::Status StatedEnd(int rank) const override { return page_->StatedEnd(hosts_.LocalIndex(rank)); }

 private:
  // A leader below, with the ranks of its host and of those below it.
  struct Child {
    std::unique_ptr<RelayLink> link;
    std::vector<int> ranks;
    int left = 0;  // of these
    std::atomic<bool> is_done{false};
    // Rank 0: its posts that were not read.
    size_t unread = 0;
    bool is_lost = false;
  };

  int HostAbove(int host) const { return (host - 1) / bounds_.fan_out; }
  bool IsOnThisHost(int rank) const { return hosts_.HostOf(rank) == host_; }
  // The child through which a rank is reached, or null.
  Child* ChildOf(int rank) const;
  bool HasRoomBelow() const;
  // Writes an entry into the page and to the children, all of which have room.
  bool Append(Entry& entry, absl::Span<const int> concerned);
  void OnLeft(int rank);
  absl::StatusOr<bool> RelayUp();
  absl::StatusOr<bool> RelayUpFrom(Child* child);
  absl::StatusOr<bool> RelayDown();
  bool FlushAll();
  absl::Status Fault(const RelayLink& link, const absl::Status& status) const;
  void CheckEnding(const RelayLink& link, bool* is_lost);

  const Hosts hosts_;
  const Bounds bounds_;
  const int rank_;
  const int host_;
  const bool leads_;
  EpochPage* const page_;
  Poller* const poller_;
  const std::vector<std::string> who_;
  const OnLost on_lost_;
  std::vector<int> all_on_page_;
  // By rank, as far as this rank knows; ranks of this host are looked up in the page.
  const std::unique_ptr<std::atomic<bool>[]> has_left_;
  // The engine's role. A leader other than rank 0: the way up, and the entry from there that does not fit yet.
  std::unique_ptr<RelayLink> above_;
  bool is_above_lost_ = false;
  std::optional<Entry> held_;
  // Whether posts of this host wait until there is room above.
  std::atomic<bool> is_stuck_{false};
  std::vector<std::unique_ptr<Child>> children_;
  // By rank: its child's index, or -1.
  std::vector<int> child_of_;
  // Rank 0: posts from other hosts, by rank, and how many in all.
  std::vector<std::deque<Post>> posts_;
  std::atomic<size_t> unread_{0};
  bool has_ended_ = false;
  RelayFrame frame_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_HOSTS_CHANNEL_H_
