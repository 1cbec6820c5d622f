#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/order/orderer.h"

namespace farandole {
namespace {

// One rank's state of one name: as in SubmissionTable, but without threads. Submissions are numbered from 1.
struct RankName {
  int64_t submitted = 0;
  std::deque<int64_t> posted;
  uint32_t slot = 0;
};

struct Name {
  uint32_t group = 0;
  OpType op = OpType::kAllreduce;
  bool is_inline = false;
  std::map<int, RankName> ranks;
};

// A whole epoch around one Orderer, by a seed: groups that overlap, names that each rank submits `kRounds` times in an
// order of its own, slots that rank 0 learns of late and that are retired, fusion limits, disputes. Delivers posts
// late, but those of one rank in their order.
class RandomEpoch {
 public:
  explicit RandomEpoch(uint32_t seed)
      : random_(seed),
        size_(Below(5) + 1),
        orderer_(size_, {Below(4000) + 1, Below(4) + 1, static_cast<size_t>(Below(6) + 2)}) {
    groups_[0] = Range(size_);
    for (int i = Below(3); i > 0; --i) AddGroup();
    for (int i = Below(8) + 1; i > 0; --i) AddName();
    in_flight_.resize(size_);
    left_.resize(size_);
    for (size_t name = 0; name < names_.size(); ++name) {
      for (auto& [rank, state] : names_[name].ranks) left_[rank].insert(left_[rank].end(), kRounds, name);
    }
    for (auto& names : left_) std::shuffle(names.begin(), names.end(), random_);
  }

  void Run() {
    for (int turns = 0; !IsDone(); ++turns) {
      ASSERT_LT(turns, 200000) << "nothing gets done any more";
      switch (Below(4)) {
        case 0:
          SubmitOne();
          break;
        case 1:
          DeliverOne();
          break;
        case 2:
          TellOrderer();
          break;
        default:
          TakeOne();
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    while (std::optional<Entry> entry = orderer_.Next(true)) {
      ASSERT_EQ(entry->kind, Entry::Kind::kRetire) << "something was ordered twice";
    }
  }

 private:
  static constexpr int kRounds = 6;

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  static std::vector<int> Range(int size) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }

  void AddGroup() {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank) {
      if (Below(2) == 0) ranks.push_back(rank);
    }
    if (ranks.empty()) return;
    const uint32_t number = static_cast<uint32_t>(groups_.size());
    orderer_.AddGroup(number, ranks);
    groups_[number] = std::move(ranks);
  }

  void AddName() {
    Name name;
    name.group = static_cast<uint32_t>(Below(static_cast<int>(groups_.size())));
    const OpType ops[] = {OpType::kAllreduce, OpType::kAllgather, OpType::kBroadcast};
    name.op = ops[Below(3)];
    name.is_inline = name.op == OpType::kAllreduce && Below(2) == 0;
    for (int rank : groups_[name.group]) name.ranks[rank];
    names_.push_back(std::move(name));
  }

  // The value that stands for a rank's submission, and what rounds are disputed: the same on all ranks.
  static int64_t CountOf(int rank, int64_t number) { return number * 10 + rank; }
  static bool IsDisputed(size_t name, int64_t number) { return (name + static_cast<size_t>(number)) % 5 == 0; }

  Post PostOf(size_t index, int rank, int64_t number) const {
    const Name& name = names_[index];
    Post post;
    post.slot = name.ranks.at(rank).slot;
    post.op = name.op;
    // Ranks of a collective agree about the count, except for that of a gather.
    post.count = name.op == OpType::kAllgather ? CountOf(rank, number) : number * 10;
    post.signature = IsDisputed(index, number) ? static_cast<uint64_t>(rank) : 1000;
    if (name.is_inline) {
      const float value = static_cast<float>(number);
      post.is_inline = 1;
      post.payload_bytes = sizeof(value);
      std::memcpy(post.payload, &value, sizeof(value));
    }
    return post;
  }

  void SubmitOne() {
    const int rank = Below(size_);
    if (left_[rank].empty()) return;
    const size_t index = left_[rank].back();
    left_[rank].pop_back();
    RankName& state = names_[index].ranks.at(rank);
    state.posted.push_back(++state.submitted);
    if (state.slot == 0) {
      Assign(index, rank);
    } else {
      in_flight_[rank].push_back(PostOf(index, rank, state.submitted));
    }
  }

  // The coordinator's part: a name's slot is that which other ranks have, else the next number.
  void Assign(size_t index, int rank) {
    uint32_t& slot = slot_of_name_[index];
    if (slot == 0 || retired_.count(slot) != 0) {
      slot = ++last_slot_;
      untold_.push_back(slot);
      name_of_slot_[slot] = index;
    }
    RankName& state = names_[index].ranks.at(rank);
    state.slot = slot;
    for (int64_t number : state.posted) in_flight_[rank].push_back(PostOf(index, rank, number));
  }

  void DeliverOne() {
    const int rank = Below(size_);
    if (in_flight_[rank].empty()) return;
    orderer_.OnPost(rank, in_flight_[rank].front());
    in_flight_[rank].pop_front();
  }

  void TellOrderer() {
    if (untold_.empty()) return;
    const uint32_t slot = untold_.front();
    untold_.pop_front();
    orderer_.AddSlot(slot, names_[name_of_slot_.at(slot)].group);
  }

  void TakeOne() {
    std::optional<Entry> entry = orderer_.Next(Below(2) == 0);
    if (!entry.has_value()) return;
    switch (entry->kind) {
      case Entry::Kind::kBatch:
        return OnBatch(*entry);
      case Entry::Kind::kInline:
        return OnInline(*entry);
      case Entry::Kind::kDispute:
        return (void)Complete(entry->slot, /*disputed=*/true);
      case Entry::Kind::kRetire:
        return OnRetired(entry->slot);
      default:
        FAIL() << "nobody has left or joined";
    }
  }

  // Every rank of the group completes its oldest submission in the slot, and all have the same number. Gives it.
  int64_t Complete(uint32_t slot, bool disputed) {
    const size_t index = name_of_slot_.at(slot);
    int64_t number = 0;
    for (auto& [rank, state] : names_[index].ranks) {
      EXPECT_EQ(state.slot, slot) << "rank " << rank;
      if (state.posted.empty()) {
        ADD_FAILURE() << "rank " << rank << " has nothing in slot " << slot;
        return 0;
      }
      if (number == 0) number = state.posted.front();
      EXPECT_EQ(state.posted.front(), number) << "rank " << rank;
      state.posted.pop_front();
    }
    EXPECT_EQ(IsDisputed(index, number) && names_[index].ranks.size() > 1, disputed);
    completed_ += names_[index].ranks.size();
    return number;
  }

  void OnBatch(const Entry& entry) {
    std::set<uint32_t> slots;
    for (const Entry::Item& item : entry.items) {
      ASSERT_TRUE(slots.insert(item.slot).second) << "slot " << item.slot << " twice in one batch";
      const size_t index = name_of_slot_.at(item.slot);
      ASSERT_EQ(entry.group, names_[index].group);
      ASSERT_EQ(entry.op, names_[index].op);
      const int64_t number = Complete(item.slot, false);
      if (entry.op != OpType::kAllgather) continue;
      ASSERT_EQ(entry.items.size(), 1u);
      const std::vector<int>& ranks = groups_[entry.group];
      ASSERT_EQ(entry.counts.size(), ranks.size());
      for (size_t position = 0; position < ranks.size(); ++position) {
        ASSERT_EQ(entry.counts[position], CountOf(ranks[position], number));
      }
    }
  }

  void OnInline(const Entry& entry) {
    const int64_t number = Complete(entry.slot, false);
    float sum = 0;
    std::memcpy(&sum, entry.payload, sizeof(sum));
    ASSERT_EQ(sum, static_cast<float>(number * static_cast<int64_t>(groups_[entry.group].size())));
  }

  void OnRetired(uint32_t slot) {
    retired_.insert(slot);
    const size_t index = name_of_slot_.at(slot);
    for (auto& [rank, state] : names_[index].ranks) {
      if (state.slot != slot) continue;
      state.slot = 0;
      if (!state.posted.empty()) Assign(index, rank);
    }
  }

  bool IsDone() const {
    size_t expected = 0;
    for (const Name& name : names_) expected += name.ranks.size() * kRounds;
    return completed_ == expected;
  }

  std::mt19937 random_;
  const int size_;
  Orderer orderer_;
  std::map<uint32_t, std::vector<int>> groups_;
  std::vector<Name> names_;
  std::vector<std::vector<size_t>> left_;    // by rank: names to submit
  std::vector<std::deque<Post>> in_flight_;  // by rank
  std::deque<uint32_t> untold_;              // slots that the orderer was not told of
  std::map<size_t, uint32_t> slot_of_name_;
  std::map<uint32_t, size_t> name_of_slot_;
  std::set<uint32_t> retired_;
  uint32_t last_slot_ = 0;
  size_t completed_ = 0;
};

TEST(OrdererRandomTest, NothingIsLostDoubledOrMixedUp) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomEpoch epoch(seed);
    epoch.Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace farandole
