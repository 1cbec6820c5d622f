#ifndef FARANDOLE_SDK_CPP_FARANDOLE_SAMPLER_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_SAMPLER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace farandole {
inline namespace sdk {

/// Which samples of a data set each rank takes in a pass, as PyTorch's DistributedSampler: all ranks shuffle alike, and
/// rank r takes every size-th sample from the r-th on. All ranks get equally many: the last ones are repeated from the
/// begin of the order, or with `drop_last` left out. The order depends on seed and pass only, the same on every machine
/// (SplitMix64, Steele et al. 2014, and Fisher and Yates).
///
/// In an elastic job, Skip() tells how many samples of the pass all ranks together are done with: the rest is shared
/// out, also among another number of ranks.
class DistributedSampler {
 public:
  struct Options {
    bool shuffle = true;
    uint64_t seed = 0;
    bool drop_last = false;
  };

  /// `count`: samples of the data set. 0 <= rank < size.
  DistributedSampler(int64_t count, int rank, int size) : DistributedSampler(count, rank, size, Options()) {}
  DistributedSampler(int64_t count, int rank, int size, const Options& options)
      : count_(count), rank_(rank), size_(size), options_(options) {}

  /// Makes the pass with this number the present one; none of its samples is done. Each pass has another order.
  void SetPass(int64_t pass) {
    pass_ = pass;
    done_ = 0;
  }
  /// The first `count` samples of the pass are done.
  void Skip(int64_t count) { done_ = std::min(std::max<int64_t>(count, 0), count_); }
  /// This process's place in another epoch.
  void SetPlace(int rank, int size) {
    rank_ = rank;
    size_ = size;
  }

  /// How many samples each rank gets.
  int64_t CountPerRank() const {
    const int64_t left = count_ - done_;
    return options_.drop_last ? left / size_ : (left + size_ - 1) / size_;
  }
  /// This rank's samples, in their order.
  std::vector<int64_t> Indices() const {
    const std::vector<int64_t> order = Order();
    const int64_t left = count_ - done_;
    std::vector<int64_t> own;
    own.reserve(static_cast<size_t>(CountPerRank()));
    for (int64_t i = 0; i < CountPerRank(); ++i) {
      own.push_back(order[static_cast<size_t>(done_ + (i * size_ + rank_) % left)]);
    }
    return own;
  }

 private:
  // All samples, in the order of the pass.
  std::vector<int64_t> Order() const {
    std::vector<int64_t> order(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) order[static_cast<size_t>(i)] = i;
    if (!options_.shuffle) return order;
    uint64_t state = options_.seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(pass_) + 1;
    for (size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[Random(&state) % left]);
    }
    return order;
  }
  static uint64_t Random(uint64_t* state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  int64_t count_;
  int64_t rank_;
  int64_t size_;
  Options options_;
  int64_t pass_ = 0;
  int64_t done_ = 0;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_SAMPLER_H_
