#include "worker/order/hosts_channel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {

std::vector<int> HostsChannel::PeersOf(const Hosts& hosts, int rank, int fan_out) {
  std::vector<int> peers;
  const int host = hosts.HostOf(rank);
  if (hosts.Leader(host) != rank) return peers;
  if (host > 0) peers.push_back(hosts.Leader((host - 1) / fan_out));
  for (int below = host * fan_out + 1; below <= host * fan_out + fan_out && below < hosts.count(); ++below) {
    peers.push_back(hosts.Leader(below));
  }
  return peers;
}

HostsChannel::HostsChannel(Hosts hosts, int rank, EpochPage* page, Poller* poller,
                           std::vector<std::unique_ptr<RelayLink>> links, std::vector<std::string> who, OnLost on_lost,
                           Bounds bounds)
    : hosts_(std::move(hosts)),
      bounds_(bounds),
      rank_(rank),
      host_(hosts_.HostOf(rank)),
      leads_(hosts_.LocalIndex(rank) == 0),
      page_(page),
      poller_(poller),
      who_(std::move(who)),
      on_lost_(std::move(on_lost)),
      all_on_page_(hosts_.RanksOn(host_)),
      has_left_(new std::atomic<bool>[hosts_.size()]()),
      child_of_(hosts_.size(), -1),
      posts_(rank == 0 ? hosts_.size() : 0) {
  const std::vector<int> peers = PeersOf(hosts_, rank, bounds_.fan_out);
  FD_CHECK_EQ(peers.size(), links.size());
  std::iota(all_on_page_.begin(), all_on_page_.end(), 0);
  for (size_t i = 0; i < links.size(); ++i) {
    FD_CHECK_EQ(peers[i], links[i]->peer());
    if (i == 0 && host_ > 0) {
      above_ = std::move(links[i]);
      continue;
    }
    children_.push_back(std::make_unique<Child>());
    children_.back()->link = std::move(links[i]);
  }
  if (!leads_) return;
  for (int other = 0; other < hosts_.size(); ++other) {
    int below = hosts_.HostOf(other);
    while (below > host_ && HostAbove(below) != host_) below = HostAbove(below);
    if (below <= host_) continue;
    child_of_[other] = below - host_ * bounds_.fan_out - 1;
    children_[child_of_[other]]->ranks.push_back(other);
  }
}

HostsChannel::Child* HostsChannel::ChildOf(int rank) const {
  const int child = child_of_[rank];
  return child < 0 ? nullptr : children_[child].get();
}

bool HostsChannel::TryPost(const Post& post) {
  if (!page_->TryPost(post)) return false;
  // A leader carries its host's posts on at any time; rank 0 needs them when it has submitted as well.
  if (host_ > 0 && !leads_) page_->bell(0).Summon();
  return true;
}

bool HostsChannel::ReadEntry(Entry* entry) {
  if (!page_->ReadEntry(entry)) return false;
  if (entry->kind == Entry::Kind::kLeft) has_left_[entry->rank].store(true);
  return true;
}

bool HostsChannel::HasNews() const {
  if (page_->HasEntry() || unread_.load() > 0) return true;
  return leads_ && !is_stuck_.load() && page_->HasPosts();
}

bool HostsChannel::ReadPost(int rank, Post* post) {
  if (IsOnThisHost(rank)) return page_->ReadPost(hosts_.LocalIndex(rank), post);
  std::deque<Post>& posts = posts_[rank];
  if (posts.empty()) return false;
  *post = posts.front();
  posts.pop_front();
  --ChildOf(rank)->unread;
  unread_.fetch_sub(1);
  return true;
}

bool HostsChannel::HasRoomBelow() const {
  return std::all_of(children_.begin(), children_.end(), [](const std::unique_ptr<Child>& child) {
    return child->is_done.load() || child->link->HasRoom();
  });
}

bool HostsChannel::TryAppend(Entry& entry, absl::Span<const int> concerned) {
  if (!HasRoomBelow()) return false;
  // The ranks of host 0 are the first, and have the same numbers on its page.
  const auto end = std::lower_bound(concerned.begin(), concerned.end(), hosts_.RanksOn(0));
  return Append(entry, concerned.subspan(0, end - concerned.begin()));
}

bool HostsChannel::Append(Entry& entry, absl::Span<const int> concerned) {
  if (!page_->TryAppend(entry, concerned)) return false;
  for (const std::unique_ptr<Child>& child : children_) {
    if (child->is_done.load()) continue;
    AppendEntry(entry, child->link->out());
    child->link->Flush();
  }
  if (entry.kind == Entry::Kind::kLeft) OnLeft(entry.rank);
  return true;
}

void HostsChannel::OnLeft(int rank) {
  has_left_[rank].store(true);
  Child* child = ChildOf(rank);
  // It has read its leave; no later entry concerns that host, and it may go.
  if (child != nullptr && ++child->left == static_cast<int>(child->ranks.size())) child->is_done.store(true);
}

bool HostsChannel::HasLeft(int rank) const {
  return has_left_[rank].load() || (IsOnThisHost(rank) && page_->HasLeft(hosts_.LocalIndex(rank)));
}

bool HostsChannel::IsNeeded() const {
  if (!leads_) return false;
  return page_->IsNeeded() || std::any_of(children_.begin(), children_.end(), [](const std::unique_ptr<Child>& child) {
           return !child->is_done.load() || !child->link->IsFlushed();
         });
}

// No other rank waits for a host's only rank; and all ranks wait for rank 0 anyway, until it has submitted as well.
bool HostsChannel::ServesOthers() const {
  if (host_ > 0 && (hosts_.RanksOn(host_) > 1 || !children_.empty())) return true;
  return std::any_of(children_.begin(), children_.end(),
                     [](const std::unique_ptr<Child>& child) { return !child->link->IsFlushed(); });
}

bool HostsChannel::Rest() {
  // A relaying thread has just polled. Others poll only within a collective; else messages of a faster peer, or a
  // connection that has ended, would ring for ever.
  if (!Relays() && poller_->Poll()) return false;
  poller_->Rest();
  return true;
}

absl::StatusOr<bool> HostsChannel::Relay() {
  poller_->Poll();
  bool moved = false;
  if (above_ != nullptr && above_->Receive()) moved = true;
  for (const std::unique_ptr<Child>& child : children_) {
    if (child->link->Receive()) moved = true;
  }
  const absl::StatusOr<bool> up = RelayUp();
  if (!up.ok()) return up;
  const absl::StatusOr<bool> down = above_ == nullptr ? absl::StatusOr<bool>(false) : RelayDown();
  if (!down.ok()) return down;
  const bool flushed = FlushAll();
  return moved || *up || *down || flushed;
}

absl::StatusOr<bool> HostsChannel::RelayUp() {
  bool moved = false;
  if (above_ != nullptr) {
    Post& post = frame_.post;
    for (const int local : all_on_page_) {
      while (above_->HasRoom() && page_->ReadPost(local, &post)) {
        AppendPost(hosts_.Leader(host_) + local, post, above_->out());
        moved = true;
      }
    }
    is_stuck_.store(!above_->HasRoom());
  }
  for (const std::unique_ptr<Child>& child : children_) {
    const absl::StatusOr<bool> relayed = RelayUpFrom(child.get());
    if (!relayed.ok()) return relayed;
    if (*relayed) moved = true;
  }
  // Send at once, so that it travels while this host reads its input.
  if (moved && above_ != nullptr) above_->Flush();
  return moved;
}

absl::StatusOr<bool> HostsChannel::RelayUpFrom(Child* child) {
  bool moved = false;
  while (above_ == nullptr ? child->unread < bounds_.most_unread : above_->HasRoom()) {
    const absl::StatusOr<bool> taken = child->link->Next(hosts_.size(), &frame_);
    if (!taken.ok()) return Fault(*child->link, taken.status());
    if (!*taken) {
      // A rank that has left may go, but not before it has passed on the messages for those below it.
      if (!child->is_done.load()) CheckEnding(*child->link, &child->is_lost);
      return moved;
    }
    moved = true;
    if (frame_.kind == RelayFrame::Kind::kEnd) return frame_.end;
    if (frame_.kind != RelayFrame::Kind::kPost || ChildOf(frame_.rank) != child) {
      return Fault(*child->link, absl::InvalidArgumentError("it sent something else than a post of a rank below it"));
    }
    if (above_ != nullptr) {
      AppendPost(frame_.rank, frame_.post, above_->out());
    } else {
      posts_[frame_.rank].push_back(frame_.post);
      ++child->unread;
      unread_.fetch_add(1);
    }
  }
  return moved;
}

absl::StatusOr<bool> HostsChannel::RelayDown() {
  bool moved = false;
  for (;;) {
    if (!held_.has_value()) {
      const absl::StatusOr<bool> taken = above_->Next(hosts_.size(), &frame_);
      if (!taken.ok()) return Fault(*above_, taken.status());
      if (!*taken) {
        if (IsNeeded()) CheckEnding(*above_, &is_above_lost_);
        return moved;
      }
      if (frame_.kind == RelayFrame::Kind::kEnd) return frame_.end;
      if (frame_.kind != RelayFrame::Kind::kEntry) {
        return Fault(*above_, absl::InvalidArgumentError("it sent something else than a log entry or an end"));
      }
      held_ = std::move(frame_.entry);
      moved = true;
    }
    const uint64_t sequence = held_->sequence;
    if (!HasRoomBelow() || !Append(*held_, all_on_page_)) return moved;
    if (held_->sequence != sequence) {
      return Fault(*above_, absl::InternalError(absl::StrCat("its log has entry ", sequence, " where this host's has ",
                                                             held_->sequence)));
    }
    frame_.entry = *std::exchange(held_, std::nullopt);
    moved = true;
  }
}

bool HostsChannel::FlushAll() {
  bool moved = above_ != nullptr && !above_->IsFlushed() && above_->Flush();
  for (const std::unique_ptr<Child>& child : children_) {
    if (!child->link->IsFlushed() && child->link->Flush()) moved = true;
  }
  return moved;
}

absl::Status HostsChannel::Fault(const RelayLink& link, const absl::Status& status) const {
  return absl::AbortedError(
      absl::StrCat("the connection to ", who_[link.peer()], " makes no sense: ", std::string(status.message())));
}

void HostsChannel::CheckEnding(const RelayLink& link, bool* is_lost) {
  if (link.ending().empty() || *is_lost) return;
  *is_lost = true;
  if (!has_ended_) {
    on_lost_(link.peer(), absl::StrCat("its connection to ", who_[rank_], " ", link.ending()));
  }
}

void HostsChannel::End(const absl::Status& reason) {
  if (has_ended_ || HasLeft(rank_)) return;
  has_ended_ = true;
  std::vector<RelayLink*> links;
  if (above_ != nullptr) links.push_back(above_.get());
  for (const std::unique_ptr<Child>& child : children_) links.push_back(child->link.get());
  for (RelayLink* link : links) {
    AppendEnd(reason, link->out());
    link->Flush();
  }
}

}  // namespace farandole
