#include "worker/collectives/schedules/direct_allreduce.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace farandole {
namespace {

// The shares of the segment that begins at `offset`.
std::vector<Piece> SegmentShares(int64_t offset, int64_t count, int size) {
  std::vector<Piece> shares = EvenShares(count, size);
  for (Piece& share : shares) share.offset += offset;
  return shares;
}

// Everybody begins with its next neighbour, so that no rank is the target of all
// at once.
int PeerAt(int position, int turn, int size) { return (position + turn) % size; }

// Where the owner keeps the contribution of `peer`.
Piece ContributionOf(int peer, int position, int64_t scratch, int64_t count) {
  const int slot = peer < position ? peer : peer - 1;
  return {Buffer::kScratch, scratch + slot * count, count};
}

}  // namespace

void AddDirectContributions(int position, const std::vector<Piece>& shares, int64_t scratch, Round* round) {
  const int size = static_cast<int>(shares.size());
  const int64_t own = shares[position].count;
  for (int turn = 1; turn < size; ++turn) {
    const int to = PeerAt(position, turn, size);
    const int from = PeerAt(position, size - turn, size);
    if (shares[to].count > 0) round->push_back(Step::Send(to, shares[to]));
    if (own > 0) {
      round->push_back(Step::Receive(from, ContributionOf(from, position, scratch, own)));
    }
  }
}

void AddDirectResults(int position, const std::vector<Piece>& shares, Round* round) {
  const int size = static_cast<int>(shares.size());
  const Piece& own = shares[position];
  for (int turn = 1; turn < size; ++turn) {
    const int to = PeerAt(position, turn, size);
    const int from = PeerAt(position, size - turn, size);
    if (own.count > 0) round->push_back(Step::Send(to, own));
    if (shares[from].count > 0) {
      round->push_back(Step::Receive(from, shares[from]));
    }
  }
}

Step ReduceDirectShare(int position, const std::vector<Piece>& shares, int64_t scratch) {
  const Piece& own = shares[position];
  std::vector<Piece> sources;
  for (int peer = 0; peer < static_cast<int>(shares.size()); ++peer) {
    sources.push_back(peer == position ? own : ContributionOf(peer, position, scratch, own.count));
  }
  return Step::Reduce(own, std::move(sources), true);
}

Schedule DirectAllreduce(int position, int size, int64_t count, int64_t most_share) {
  Schedule schedule;
  schedule.algorithm = "direct allreduce";
  std::vector<Piece> previous;
  for (int64_t offset = 0; offset < count;) {
    const int64_t length = std::min(count - offset, most_share * size);
    std::vector<Piece> shares = SegmentShares(offset, length, size);
    Round round;
    AddDirectContributions(position, shares, 0, &round);
    if (!previous.empty()) AddDirectResults(position, previous, &round);
    if (shares[position].count > 0) {
      round.push_back(ReduceDirectShare(position, shares, 0));
    }
    schedule.scratch_count = std::max(schedule.scratch_count, (size - 1) * shares[position].count);
    schedule.Append(std::move(round));
    previous = std::move(shares);
    offset += length;
  }
  Round last;
  if (!previous.empty()) AddDirectResults(position, previous, &last);
  schedule.Append(std::move(last));
  return schedule;
}

}  // namespace farandole
