#ifndef FARANDOLE_SERVER_JOB_RULES_BALLOT_H_
#define FARANDOLE_SERVER_JOB_RULES_BALLOT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"

namespace farandole {

// The statements of all ranks about one matter. Equal statements are kept once, so that thousands of agreeing ranks
// cost a few bytes each. Owned by its gatherer; no thread of its own.
template <typename T>
class Ballot {
 public:
  struct Choice {
    T value;
    absl::btree_set<uint32_t> ranks;
    uint32_t lowest() const { return *ranks.begin(); }
  };

  // Records the statement of `rank`; it replaces an earlier one. `same(a, b)` tells whether two statements are equal.
  template <typename Same>
  void Cast(uint32_t rank, T value, const Same& same) {
    Withdraw(rank);
    ++count_;
    for (Choice& choice : choices_) {
      if (same(choice.value, value)) {
        choice.ranks.insert(rank);
        return;
      }
    }
    choices_.push_back({std::move(value), {rank}});
  }

  void Withdraw(uint32_t rank) {
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (choices_[i].ranks.erase(rank) == 0) continue;
      --count_;
      if (choices_[i].ranks.empty()) choices_.erase(choices_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  bool Has(uint32_t rank) const {
    for (const Choice& choice : choices_) {
      if (choice.ranks.contains(rank)) return true;
    }
    return false;
  }

  // Ranks that have spoken.
  size_t count() const { return count_; }
  // In the order in which they were first made.
  const std::vector<Choice>& choices() const { return choices_; }

  // The choice of the lowest rank. The ballot must not be empty.
  const Choice& First() const { return *Lowest(nullptr); }
  // The choice of the lowest rank that did not choose as First() did; null: all agree.
  const Choice* Second() const { return choices_.size() < 2 ? nullptr : Lowest(&First()); }

 private:
  const Choice* Lowest(const Choice* but) const {
    const Choice* lowest = nullptr;
    for (const Choice& choice : choices_) {
      if (&choice != but && (lowest == nullptr || choice.lowest() < lowest->lowest())) lowest = &choice;
    }
    return lowest;
  }

  std::vector<Choice> choices_;
  size_t count_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_BALLOT_H_
