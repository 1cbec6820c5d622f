#ifndef FARANDOLE_SERVER_JOB_RULES_BALLOT_H_
#define FARANDOLE_SERVER_JOB_RULES_BALLOT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/job/rules/rank_set.h"

namespace farandole {

// The statements of all ranks about one matter. Equal statements are kept once, and each with one bit for each rank of
// the epoch (RankSet::BytesFor), as the ballot itself has. Owned by its gatherer; no thread of its own.
template <typename T>
class Ballot {
 public:
  struct Choice {
    T value;
    RankSet ranks;
    uint32_t lowest() const { return ranks.First(); }
  };

  // Records the statement of `rank`; it replaces an earlier one. `same(a, b)` tells whether two statements are equal.
  template <typename Same>
  void Cast(uint32_t rank, T value, const Same& same) {
    Withdraw(rank);
    spoken_.Insert(rank);
    for (Choice& choice : choices_) {
      if (same(choice.value, value)) {
        choice.ranks.Insert(rank);
        return;
      }
    }
    choices_.push_back({std::move(value), {}});
    choices_.back().ranks.Insert(rank);
  }

  void Withdraw(uint32_t rank) {
    if (!spoken_.Erase(rank)) return;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].ranks.Erase(rank)) continue;
      if (choices_[i].ranks.IsEmpty()) choices_.erase(choices_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  bool Has(uint32_t rank) const { return spoken_.Contains(rank); }
  // Ranks that have spoken.
  const RankSet& spoken() const { return spoken_; }
  size_t count() const { return spoken_.count(); }
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
  RankSet spoken_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_BALLOT_H_
