#ifndef FARANDOLE_SERVER_JOB_RULES_RANK_SET_H_
#define FARANDOLE_SERVER_JOB_RULES_RANK_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace farandole {

// Ranks of one epoch, one bit each: any of 4,096 ranks take 512 bytes, and two such sets are combined in some 64
// operations. A value; no thread of its own.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(const std::vector<uint32_t>& ranks) {
    for (const uint32_t rank : ranks) Insert(rank);
  }

  // The most bytes that a set of ranks below `size` takes, beside the object itself.
  static int64_t BytesFor(size_t size) { return static_cast<int64_t>((size + kBits - 1) / kBits * sizeof(uint64_t)); }

  // False: it was there.
  bool Insert(uint32_t rank) {
    const size_t word = rank / kBits;
    // By no more than is needed, as BytesFor says.
    if (word >= words_.size()) {
      words_.reserve(word + 1);
      words_.resize(word + 1);
    }
    const uint64_t bit = uint64_t{1} << (rank % kBits);
    if ((words_[word] & bit) != 0) return false;
    words_[word] |= bit;
    ++count_;
    return true;
  }
  // False: it was not there.
  bool Erase(uint32_t rank) {
    if (!Contains(rank)) return false;
    words_[rank / kBits] &= ~(uint64_t{1} << (rank % kBits));
    --count_;
    return true;
  }
  bool Contains(uint32_t rank) const {
    const size_t word = rank / kBits;
    return word < words_.size() && (words_[word] >> (rank % kBits) & 1) != 0;
  }

  bool IsEmpty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // The lowest. The set must not be empty.
  uint32_t First() const {
    size_t word = 0;
    while (words_[word] == 0) ++word;
    return static_cast<uint32_t>(word * kBits) + static_cast<uint32_t>(__builtin_ctzll(words_[word]));
  }
  // Ascending, the first `most` of them.
  std::vector<uint32_t> Ranks(size_t most = std::numeric_limits<size_t>::max()) const {
    std::vector<uint32_t> ranks;
    ranks.reserve(std::min(most, count_));
    for (size_t word = 0; word < words_.size() && ranks.size() < most; ++word) {
      for (uint64_t rest = words_[word]; rest != 0 && ranks.size() < most; rest &= rest - 1)
        ranks.push_back(static_cast<uint32_t>(word * kBits) + static_cast<uint32_t>(__builtin_ctzll(rest)));
    }
    return ranks;
  }

  void Add(const RankSet& others) {
    if (words_.size() < others.words_.size()) words_.resize(others.words_.size());
    for (size_t word = 0; word < others.words_.size(); ++word) words_[word] |= others.words_[word];
    Count();
  }
  void Remove(const RankSet& others) {
    const size_t shared = std::min(words_.size(), others.words_.size());
    for (size_t word = 0; word < shared; ++word) words_[word] &= ~others.words_[word];
    Count();
  }
  // How many are in both.
  size_t CountShared(const RankSet& others) const {
    size_t shared = 0;
    for (size_t word = 0; word < std::min(words_.size(), others.words_.size()); ++word)
      shared += static_cast<size_t>(__builtin_popcountll(words_[word] & others.words_[word]));
    return shared;
  }
  bool IsWithin(const RankSet& others) const {
    for (size_t word = 0; word < words_.size(); ++word) {
      if ((words_[word] & ~(word < others.words_.size() ? others.words_[word] : 0)) != 0) return false;
    }
    return true;
  }
  friend bool operator==(const RankSet& a, const RankSet& b) { return a.count_ == b.count_ && a.IsWithin(b); }
  friend bool operator!=(const RankSet& a, const RankSet& b) { return !(a == b); }

 private:
  static constexpr size_t kBits = 64;

  void Count() {
    count_ = 0;
    for (const uint64_t word : words_) count_ += static_cast<size_t>(__builtin_popcountll(word));
  }

  std::vector<uint64_t> words_;
  size_t count_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_RANK_SET_H_
