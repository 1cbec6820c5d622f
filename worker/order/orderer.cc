#include "worker/order/orderer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

// The elements that each position gets of a tensor; rows if they are empty.
void AddShares(const PostHeader& post, int64_t rows, size_t positions, absl::InlinedVector<int64_t, 8>* counts) {
  counts->resize(positions, 0);
  if (rows == 0) return;
  const int64_t size = static_cast<int64_t>(positions);
  for (int64_t position = 0; position < size; ++position) {
    (*counts)[position] += ShareOfRows(rows, size, position) * (post.count / rows);
  }
}

}  // namespace

Orderer::Orderer(int size, Options options) : size_(size), options_(options), joined_(size, false), stale_(size, 0) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  AddGroup(0, std::move(all));
}

void Orderer::AddGroup(uint32_t number, std::vector<int> ranks) {
  Group group;
  group.has_rank_0 = !ranks.empty() && ranks.front() == 0;
  group.ranks = std::move(ranks);
  if (!group.has_rank_0) ++foreign_groups_;
  groups_[number] = std::move(group);
}

void Orderer::RemoveGroup(uint32_t number) {
  auto found = groups_.find(number);
  if (found == groups_.end()) return;
  if (!found->second.has_rank_0) --foreign_groups_;
  groups_.erase(found);
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    auto next = std::next(slot);
    if (slot->second.group == number) {
      (slot->second.is_idle ? idle_ : busy_).erase(slot->second.position);
      slots_.erase(slot);
    }
    slot = next;
  }
  for (std::deque<uint32_t>* ready : {&urgent_, &foreign_, &batches_}) {
    auto is_gone = [this](uint32_t slot) { return !slots_.contains(slot); };
    ready->erase(std::remove_if(ready->begin(), ready->end(), is_gone), ready->end());
  }
  ready_bytes_ = 0;
  for (const uint32_t slot : batches_) ready_bytes_ += BytesOf(slots_.at(slot));
}

absl::Span<const int> Orderer::ranks(uint32_t group) const {
  auto found = groups_.find(group);
  if (found == groups_.end()) return {};
  return found->second.ranks;
}

void Orderer::AddSlot(uint32_t number, uint32_t group_number) {
  if (number <= last_slot_) return;
  last_slot_ = number;
  auto group = groups_.find(group_number);
  if (group == groups_.end()) {
    early_.erase(number);
    return TellAllJoined();
  }
  RetireIdle(options_.slots - 1);
  Slot& slot = slots_[number];
  slot.group = group_number;
  slot.position = busy_.insert(busy_.end(), number);
  // Not idle yet: ranks have asked for it and are about to post, and if it were retired before, two new names could
  // chase each other's slots away for ever.
  auto early = early_.find(number);
  if (early == early_.end()) return;
  auto posts = std::move(early->second);
  early_.erase(early);
  // Read all of them before evaluating: a rank that has joined may have posted before.
  for (auto& [rank, post] : posts) Accept(rank, post);
  Evaluate(number, slot);
  TellAllJoined();
}

bool Orderer::OnPost(int rank, const Post& post) {
  if (post.kind == Post::Kind::kLeave) return OnLeave(rank), false;
  if (post.kind == Post::Kind::kJoin) return OnJoin(rank, post.count), false;
  // A slot that is ready already stays where it is in the queue of ready slots; the new post belongs to a later round.
  return Accept(rank, post) && Evaluate(post.slot, slots_.at(post.slot));
}

void Orderer::OnUsed(uint32_t number) {
  // Only then it matters.
  if (slots_.size() < options_.slots / 2) return;
  auto found = slots_.find(number);
  if (found != slots_.end() && found->second.is_idle) idle_.splice(idle_.end(), idle_, found->second.position);
}

bool Orderer::Accept(int rank, const Post& post) {
  auto found = slots_.find(post.slot);
  if (found == slots_.end()) {
    // Numbers reach rank 0 in ascending order, so an unknown one below the last was retired: its notice goes (again) to
    // the rank that posts in it, which then asks anew.
    if (post.slot > last_slot_) {
      early_[post.slot].emplace_back(rank, post);
    } else {
      ++stale_[rank];
      AddRetireNotice(post.slot);
    }
    return false;
  }
  Slot& slot = found->second;
  Group& group = groups_.at(slot.group);
  if (group.broken) return false;
  auto at = std::lower_bound(group.ranks.begin(), group.ranks.end(), rank);
  FD_CHECK(at != group.ranks.end() && *at == rank) << "rank " << rank << " posted in a slot of group " << slot.group;
  if (slot.posts.empty()) SetBusy(slot, group);
  Queue& queue = slot.posts[at - group.ranks.begin()];
  queue.emplace_back(post);
  return queue.size() == 1;
}

void Orderer::SetBusy(Slot& slot, Group& group) {
  if (group.spare_posts.empty()) {
    slot.posts.resize(group.ranks.size());
  } else {
    slot.posts = std::move(group.spare_posts.back());
    group.spare_posts.pop_back();
  }
  if (!slot.is_idle) return;
  slot.is_idle = false;
  busy_.splice(busy_.end(), idle_, slot.position);
}

void Orderer::SetIdle(Slot& slot, Group& group) {
  group.spare_posts.push_back(std::move(slot.posts));
  slot.posts.clear();
  slot.missing = 0;
  slot.is_idle = true;
  idle_.splice(idle_.end(), busy_, slot.position);
}

bool Orderer::Evaluate(uint32_t number, Slot& slot) {
  const Group& group = groups_.at(slot.group);
  slot.missing = 0;
  int posted = 0;
  for (size_t position = 0; position < slot.posts.size(); ++position) {
    if (!slot.posts[position].empty()) {
      ++posted;
    } else if (!joined_[group.ranks[position]]) {
      ++slot.missing;
    }
  }
  if (posted == 0 || slot.missing > 0) return false;
  const bool urgent = Front(slot).is_inline != 0 || !Agrees(slot) || RootHasJoined(slot);
  if (!urgent && group.has_rank_0) ready_bytes_ += BytesOf(slot);
  (urgent ? urgent_ : group.has_rank_0 ? batches_ : foreign_).push_back(number);
  return true;
}

void Orderer::RetireIdle(size_t most) {
  while (slots_.size() > most && !idle_.empty()) {
    const uint32_t number = idle_.front();
    idle_.pop_front();
    slots_.erase(number);
    AddRetireNotice(number);
  }
}

void Orderer::AddRetireNotice(uint32_t number) {
  Entry entry;
  entry.kind = Entry::Kind::kRetire;
  entry.slot = number;
  notices_.push_back(std::move(entry));
}

void Orderer::OnLeave(int rank) {
  for (auto& [number, group] : groups_) {
    if (std::binary_search(group.ranks.begin(), group.ranks.end(), rank)) group.broken = true;
  }
  // Slots that are ready still run, before the notice; partial ones never will, and every rank fails them when it reads
  // the notice.
  for (auto& [number, slot] : slots_) {
    Group& group = groups_.at(slot.group);
    if (!group.broken || slot.missing == 0) continue;
    for (Queue& queue : slot.posts) queue.clear();
    SetIdle(slot, group);
  }
  Entry entry;
  entry.kind = Entry::Kind::kLeft;
  entry.rank = rank;
  notices_.push_back(std::move(entry));
}

void Orderer::OnJoin(int rank, int64_t returned) {
  if (joined_[rank] || returned < stale_[rank]) return;
  joined_[rank] = true;
  ++joined_count_;
  for (auto& [number, slot] : slots_) {
    if (slot.missing > 0) Evaluate(number, slot);
  }
  last_joined_ = rank;
  TellAllJoined();
}

void Orderer::TellAllJoined() {
  // Posts from before the join run before it, also in slots that are not known here yet.
  if (joined_count_ < size_ || !early_.empty()) return;
  Entry entry;
  entry.kind = Entry::Kind::kAllJoined;
  entry.rank = last_joined_;
  notices_.push_back(std::move(entry));
  // The ranks count as joined until the notice is given, after all that is ready: a slot may have several posts of a
  // rank, which become ready one by one.
  joined_count_ = 0;
}

const Orderer::Kept& Orderer::Front(const Slot& slot) const {
  for (const Queue& queue : slot.posts) {
    if (!queue.empty()) return queue.front();
  }
  FD_CHECK(false) << "a ready slot has a post";
  std::abort();
}

bool Orderer::Agrees(const Slot& slot) const {
  const uint64_t signature = Front(slot).signature;
  return std::all_of(slot.posts.begin(), slot.posts.end(),
                     [&](const Queue& queue) { return queue.empty() || queue.front().signature == signature; });
}

bool Orderer::RootHasJoined(const Slot& slot) const {
  const Kept& front = Front(slot);
  return TraitsOf(front.op).has_root && slot.posts[front.root].empty();
}

bool Orderer::HaveSameRanks(const Slot& a, const Slot& b) const {
  return std::equal(a.posts.begin(), a.posts.end(), b.posts.begin(),
                    [](const Queue& one, const Queue& other) { return one.empty() == other.empty(); });
}

void Orderer::PopFronts(uint32_t number, Slot& slot) {
  bool left = false;
  for (Queue& queue : slot.posts) {
    if (!queue.empty()) queue.erase(queue.begin());
    left = left || !queue.empty();
  }
  if (left) {
    Evaluate(number, slot);
  } else {
    SetIdle(slot, groups_.at(slot.group));
    RetireIdle(options_.slots);
  }
}

Entry Orderer::Describe(const Slot& slot) const {
  const Kept& front = Front(slot);
  Entry entry;
  entry.op = front.op;
  entry.dtype = front.dtype;
  entry.reduce_op = front.reduce_op;
  entry.flags = front.flags;
  entry.group = slot.group;
  entry.root = front.root;
  entry.prescale = front.prescale;
  entry.postscale = front.postscale;
  return entry;
}

uint64_t Orderer::ArenaOf(const Slot& slot) const {
  if (slot.posts[0].empty()) return 0;
  const auto placement_of = [](const Kept& post) { return PlacementIn(post, post.payload.data()); };
  const Placement placement = placement_of(slot.posts[0].front());
  const bool is_shared = std::all_of(slot.posts.begin(), slot.posts.end(), [&](const Queue& queue) {
    return !queue.empty() && placement_of(queue.front()) == placement;
  });
  return is_shared ? placement.arena : 0;
}

Entry Orderer::MakeInline(uint32_t number, Slot& slot) {
  Entry entry = Describe(slot);
  entry.kind = Entry::Kind::kInline;
  entry.slot = number;
  const Kept& front = Front(slot);
  if (Reduces(entry.op) && front.payload_bytes > 0) {
    // Contributions of all ranks in rank order; a joined rank contributes the identity, so leaving it out is the same.
    absl::InlinedVector<const void*, 8> inputs;
    for (const Queue& queue : slot.posts) {
      if (!queue.empty()) inputs.push_back(queue.front().payload.data());
    }
    Reduce(entry.dtype, entry.reduce_op, inputs, nullptr, entry.payload, front.payload_bytes / SizeOf(entry.dtype),
           entry.postscale, static_cast<int>(slot.posts.size()));
    entry.payload_bytes = front.payload_bytes;
  } else if (entry.op == OpType::kBroadcast) {
    const Kept& root = slot.posts[entry.root].front();
    entry.payload_bytes = root.payload_bytes;
    std::memcpy(entry.payload, root.payload.data(), root.payload_bytes);
  }
  return entry;
}

Entry Orderer::MakeDispute(uint32_t number, Slot& slot) {
  Entry entry;
  entry.kind = Entry::Kind::kDispute;
  entry.group = slot.group;
  entry.slot = number;
  entry.attempt = ++slot.disputes;
  entry.counts.push_back(
      std::count_if(slot.posts.begin(), slot.posts.end(), [](const Queue& queue) { return !queue.empty(); }));
  return entry;
}

Entry Orderer::MakeUrgent(uint32_t number) {
  Slot& slot = slots_.at(number);
  Entry entry;
  if (!Agrees(slot)) {
    entry = MakeDispute(number, slot);
  } else if (RootHasJoined(slot)) {
    entry = Describe(slot);
    entry.kind = Entry::Kind::kRootHasJoined;
    entry.slot = number;
  } else {
    entry = MakeInline(number, slot);
  }
  PopFronts(number, slot);
  return entry;
}

bool Orderer::CanFuse(const Entry& batch, const Slot& slot, int64_t bytes) const {
  const Kept& post = Front(slot);
  if (post.op != batch.op || slot.group != batch.group || post.flags != batch.flags) return false;
  if (bytes + BytesOf(slot) > options_.fusion_bytes) return false;
  if (batch.arena != ArenaOf(slot) || !HaveSameRanks(slots_.at(batch.items[0].slot), slot)) return false;
  if (TraitsOf(batch.op).fusion == OpTraits::Fusion::kSameRoot) return post.root == batch.root;
  // Adasum weighs each tensor by itself.
  return post.reduce_op != ReduceOp::kAdasum && post.dtype == batch.dtype && post.reduce_op == batch.reduce_op &&
         post.prescale == batch.prescale && post.postscale == batch.postscale;
}

int64_t Orderer::BytesOf(const Slot& slot) const {
  const Kept& front = Front(slot);
  return front.count * static_cast<int64_t>(SizeOf(front.dtype));
}

Entry Orderer::MakeBatch(std::deque<uint32_t>& ready) {
  const uint32_t first = ready.front();
  ready.pop_front();
  Entry entry = Describe(slots_.at(first));
  entry.kind = Entry::Kind::kBatch;
  const OpTraits& traits = TraitsOf(entry.op);
  int64_t bytes = 0;
  auto add = [&](uint32_t number, Slot& slot) {
    const Kept& front = Front(slot);
    const int64_t size = BytesOf(slot);
    bytes += size;
    // Broadcasts of any type travel together as bytes.
    entry.items.push_back({number, 0, entry.op == OpType::kBroadcast ? size : front.count});
    if (traits.counts != OpTraits::Counts::kShares) return;
    const Kept& shared = traits.has_root ? slot.posts[front.root].front() : front;
    AddShares(shared, RowsIn(shared, shared.payload.data()), slot.posts.size(), &entry.counts);
  };
  Slot& slot = slots_.at(first);
  entry.arena = ArenaOf(slot);
  add(first, slot);
  if (entry.op == OpType::kBroadcast) entry.dtype = DType::kU8;
  if (traits.counts == OpTraits::Counts::kStated) {
    for (const Queue& queue : slot.posts) entry.counts.push_back(queue.empty() ? 0 : queue.front().count);
  }
  std::vector<uint32_t> taken = {first};
  if (traits.fusion != OpTraits::Fusion::kNone) {
    for (auto next = ready.begin(); next != ready.end() && static_cast<int>(taken.size()) < options_.fusion_items;) {
      Slot& candidate = slots_.at(*next);
      if (!CanFuse(entry, candidate, bytes)) {
        ++next;
        continue;
      }
      add(*next, candidate);
      taken.push_back(*next);
      next = ready.erase(next);
    }
  }
  if (&ready == &batches_) ready_bytes_ -= bytes;
  // Only now: a slot with further posts becomes ready again, and must not be fused twice into one batch.
  for (uint32_t number : taken) PopFronts(number, slots_.at(number));
  return entry;
}

std::optional<Entry> Orderer::Next(bool collectives) {
  if (!urgent_.empty()) {
    const uint32_t number = urgent_.front();
    urgent_.pop_front();
    return MakeUrgent(number);
  }
  if (!foreign_.empty()) return MakeBatch(foreign_);
  if (!batches_.empty()) {
    if (!collectives) return std::nullopt;
    return MakeBatch(batches_);
  }
  if (notices_.empty()) return std::nullopt;
  Entry entry = std::move(notices_.front());
  notices_.pop_front();
  if (entry.kind == Entry::Kind::kAllJoined) joined_.assign(size_, false);
  return entry;
}

}  // namespace farandole
