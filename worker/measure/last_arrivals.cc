#include "worker/measure/last_arrivals.h"

#include <algorithm>

namespace farandole {
namespace {

// Ranks that come within a microsecond of each other come together.
constexpr int64_t kTogetherNs = 1000;

}  // namespace

LastArrivals::LastArrivals(int size) : size_(size), counted_(new Counted[size]), in_step_ns_(size, 0) {}

void LastArrivals::OnPost(int rank, bool completes, int64_t now_ns) {
  if (completes) {
    // As far as rank 0 knows: its own post is the last where all others lay there already, unseen.
    const int64_t others_ns = rank == latest_rank_ ? other_ns_ : latest_ns_;
    const int64_t since_ns = std::max(others_ns, counted_until_ns_);
    if (rank != 0 && since_ns != 0) Blame(rank, now_ns - since_ns);
    counted_until_ns_ = now_ns;
  }
  if (rank != latest_rank_) {
    other_ns_ = latest_ns_;
    latest_rank_ = rank;
  }
  latest_ns_ = now_ns;
}

void LastArrivals::Blame(int rank, int64_t ns) {
  if (ns < kTogetherNs) return;
  if (in_step_ns_[rank] == 0) blamed_.push_back(rank);
  in_step_ns_[rank] += ns;
  std::atomic<int64_t>& alone_ns = counted_[rank].alone_ns;
  alone_ns.store(alone_ns.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
}

void LastArrivals::CloseStep(uint64_t next) {
  // Nobody was missing alone: all came together, or rank 0 came last.
  int last = 0;
  for (const int rank : blamed_) {
    if (in_step_ns_[rank] > in_step_ns_[last]) last = rank;
  }
  for (const int rank : blamed_) in_step_ns_[rank] = 0;
  blamed_.clear();
  std::atomic<uint64_t>& steps = counted_[last].steps;
  if (step_ != 0) steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  step_ = next;
}

LastArrivals::Tally LastArrivals::Read(int rank) const {
  return {counted_[rank].steps.load(std::memory_order_relaxed),
          counted_[rank].alone_ns.load(std::memory_order_relaxed)};
}

}  // namespace farandole
