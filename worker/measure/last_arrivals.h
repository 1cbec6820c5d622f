#ifndef FARANDOLE_WORKER_MEASURE_LAST_ARRIVALS_H_
#define FARANDOLE_WORKER_MEASURE_LAST_ARRIVALS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace farandole {

// Rank 0's account of who comes last: in how many steps each rank kept the others waiting for longest, and for how long
// it alone was missing, all together. Pure: times come with the calls. Owned by rank 0's Engine; calls belong to its
// role, but for Read.
//
// A rank that posts a step's tensors late completes many slots one after the other; the time counts once: from the last
// post of another rank, or from the post that was counted before. Rank 0 sees a post when it looks. If rank 0 itself
// posts last, it cannot know since when the others have waited: the step counts for rank 0, with no time.
class LastArrivals {
 public:
  struct Tally {
    uint64_t steps = 0;
    int64_t alone_ns = 0;
  };

  explicit LastArrivals(int size);

  // Rank `rank` has posted; `completes`: with it a slot has all posts that it needs.
  void OnPost(int rank, bool completes, int64_t now_ns);
  // In the rendezvous: only `rank` is missing now; -1: several are, or none, or the round is declined.
  void OnMissing(int rank, int64_t now_ns) {
    if (rank == alone_) return;
    alone_ = rank;
    alone_since_ns_ = now_ns;
  }
  // The ranks have met.
  void OnMet(int64_t now_ns) {
    if (alone_ < 0) return;
    Blame(alone_, now_ns - alone_since_ns_);
    alone_ = -1;
  }
  // The number of the step that goes on; a greater one than before ends the one before.
  void OnStep(uint64_t step) {
    if (step != step_) CloseStep(step);
  }

  // Any thread.
  Tally Read(int rank) const;
  int size() const { return size_; }

 private:
  struct Counted {
    std::atomic<uint64_t> steps{0};
    std::atomic<int64_t> alone_ns{0};
  };
  void Blame(int rank, int64_t ns);
  void CloseStep(uint64_t next);

  const int size_;
  const std::unique_ptr<Counted[]> counted_;
  uint64_t step_ = 0;
  // Time in the step that goes on, by rank, and the ranks that have some.
  std::vector<int64_t> in_step_ns_;
  std::vector<int> blamed_;
  // The latest post, and the latest of another rank than that one's.
  int latest_rank_ = -1;
  int64_t latest_ns_ = 0;
  int64_t other_ns_ = 0;
  // Until then the time is counted.
  int64_t counted_until_ns_ = 0;
  int alone_ = -1;
  int64_t alone_since_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_LAST_ARRIVALS_H_
