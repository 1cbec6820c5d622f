#include "tests/simulation/sim_fabric.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr int kMostUnreadPosts = 6;
constexpr uint64_t kMostUnreadEntries = 12;

enum Lane { kPosts, kLog, kData };

}  // namespace

SimChannel::SimChannel(SimFabric* fabric, int rank)
    : fabric_(fabric), rank_(rank), posts_(fabric->size()), read_(fabric->size()) {}

bool SimChannel::TryPost(const Post& post) {
  if (unread_posts_ >= kMostUnreadPosts) return false;
  ++unread_posts_;
  fabric_->Deliver(rank_, 0, kPosts,
                   [from = rank_, post](const SimFabric::End& end) { end.channel->posts_[from].push_back(post); });
  return true;
}

bool SimChannel::ReadPost(int rank, Post* post) {
  if (posts_[rank].empty()) return false;
  *post = posts_[rank].front();
  posts_[rank].pop_front();
  fabric_->Deliver(0, rank, kPosts, [](const SimFabric::End& end) { --end.channel->unread_posts_; });
  return true;
}

bool SimChannel::TryAppend(Entry& entry, absl::Span<const int> concerned) {
  (void)concerned;
  uint64_t least = appended_;
  for (int rank = 0; rank < fabric_->size(); ++rank) {
    if (!HasLeft(rank)) least = std::min(least, read_[rank]);
  }
  if (appended_ - least >= kMostUnreadEntries) return false;
  entry.sequence = ++appended_;
  for (int rank = 0; rank < fabric_->size(); ++rank) {
    fabric_->Deliver(0, rank, kLog, [entry, rank](const SimFabric::End& end) {
      if (entry.kind == Entry::Kind::kLeft) end.channel->fabric_->SetLeft(rank, entry.rank);
      end.channel->log_.push_back(entry);
    });
  }
  return true;
}

bool SimChannel::ReadEntry(Entry* entry) {
  if (log_.empty()) return false;
  *entry = log_.front();
  log_.pop_front();
  fabric_->Deliver(rank_, 0, kLog, [from = rank_, read = entry->sequence](const SimFabric::End& end) {
    end.channel->read_[from] = read;
  });
  return true;
}

bool SimChannel::HasNews() const {
  return !log_.empty() || std::any_of(posts_.begin(), posts_.end(), [](const auto& posts) { return !posts.empty(); });
}

bool SimChannel::HasLeft(int rank) const { return fabric_->HasLeft(rank_, rank); }

bool SimChannel::IsNeeded() const {
  for (int rank = 0; rank_ == 0 && rank < fabric_->size(); ++rank) {
    if (!HasLeft(rank)) return true;
  }
  return false;
}

void SimChannel::Beat(uint64_t beat, uint64_t batches) { fabric_->pulse(rank_) = {beat, batches}; }

ReadyChannel::Pulse SimChannel::ReadPulse(int rank) const {
  return fabric_->AreOnOneHost(rank_, rank) ? fabric_->pulse(rank) : Pulse();
}

void SimChannel::StateEnd(const absl::Status& reason) { fabric_->end(rank_) = reason; }

absl::Status SimChannel::StatedEnd(int rank) const {
  return fabric_->AreOnOneHost(rank_, rank) ? fabric_->end(rank) : absl::OkStatus();
}

SimTransport::SimTransport(SimFabric* fabric, int rank)
    : fabric_(fabric),
      rank_(rank),
      is_alive_(std::make_shared<bool>(true)),
      arrived_(fabric->size()),
      receives_(fabric->size()) {}

int SimTransport::size() const { return fabric_->size(); }

void SimTransport::Send(Transfer* transfer) {
  const std::string bytes(transfer->data, transfer->bytes);
  fabric_->Deliver(rank_, transfer->peer, kData, [from = rank_, bytes](const SimFabric::End& end) {
    end.transport->arrived_[from].push_back(bytes);
    end.transport->Match(from);
  });
  // The sender hears of it by itself, in its own time.
  fabric_->Deliver(rank_, rank_, kData, [this, alive = is_alive_, transfer](const SimFabric::End&) {
    if (!*alive) return;
    transfer->done = transfer->bytes;
    transfer->complete = true;
    moved_ = true;
  });
}

void SimTransport::Receive(Transfer* transfer) {
  receives_[transfer->peer].push_back(transfer);
  Match(transfer->peer);
}

void SimTransport::Match(int peer) {
  while (*is_alive_ && !arrived_[peer].empty() && !receives_[peer].empty()) {
    const std::string bytes = std::move(arrived_[peer].front());
    Transfer* const transfer = receives_[peer].front();
    arrived_[peer].pop_front();
    receives_[peer].pop_front();
    if (bytes.size() != transfer->bytes) {
      return Abort(absl::InternalError(
          absl::StrCat("rank ", peer, " sends ", bytes.size(), " bytes, rank ", rank_, " receives ", transfer->bytes)));
    }
    std::memcpy(transfer->data, bytes.data(), bytes.size());
    transfer->done = transfer->bytes;
    transfer->complete = true;
    moved_ = true;
  }
}

absl::StatusOr<bool> SimTransport::Progress() {
  if (!error_.ok()) return error_;
  return std::exchange(moved_, false);
}

void SimTransport::Abort(absl::Status reason) {
  if (error_.ok()) error_ = std::move(reason);
  *is_alive_ = false;
}

void SimFabric::Enter(int rank, End end) {
  hosts_[rank] = end.process->host();
  ranks_[rank] = std::make_unique<End>(std::move(end));
  for (const auto& arrive : std::exchange(early_[rank], {})) arrive(*ranks_[rank]);
  Wake(rank);
}

void SimFabric::Deliver(int from, int to, int lane, std::function<void(const End&)> arrive) {
  const bool is_near = AreOnOneHost(from, to);
  const int64_t usual = is_near ? 2 * kMicrosecond : 100 * kMicrosecond;
  int64_t delay = time_->OneIn(100) ? time_->Between(0, 50 * kMillisecond) : time_->Between(usual / 4, usual * 2);
  if (!is_near) delay += std::max<int64_t>(0, cut_until_ns_ - VirtualTime::NowNs());
  time_->After(lanes_[{from, to, lane}].Next(delay), [this, to, arrive = std::move(arrive)] {
    // What arrives at a stopped process's memory or socket is there when it goes on.
    if (ranks_[to] == nullptr) {
      early_[to].push_back(arrive);
      return;
    }
    if (ranks_[to]->process->is_dead()) return;
    arrive(*ranks_[to]);
    Wake(to);
  });
}

void SimFabric::Wake(int rank) {
  if (ranks_[rank] != nullptr) ranks_[rank]->wake();
}

bool SimFabric::HasLeft(int observer, int rank) const {
  for (const auto& [who, host] : hosts_) {
    if (hosts_.at(observer) == host && has_left_.count({who, rank}) > 0) return true;
  }
  return false;
}

bool SimFabric::AreOnOneHost(int a, int b) const {
  const auto first = hosts_.find(a), second = hosts_.find(b);
  return a == b || (first != hosts_.end() && second != hosts_.end() && first->second == second->second);
}

}  // namespace farandole
