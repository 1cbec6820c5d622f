#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SCHEDULE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farandole {

// The memory that a schedule works on. `kWork` holds this rank's contribution before the first round and the result
// after the last: all elements of an allreduce or broadcast; of an allgather the result, with the rank's own piece in
// its place; of a reducescatter all elements, and after it the rank's own share in its place; of an alltoall the
// result, with the rank's piece for itself in its place. `kScratch` holds nothing at first. `kInput`: of an alltoall,
// the rank's contribution; only sent from.
enum class Buffer : uint8_t { kWork, kScratch, kInput };

// The elements [offset, offset + count) of a buffer.
struct Piece {
  Buffer buffer = Buffer::kWork;
  int64_t offset = 0;
  int64_t count = 0;
};

// One thing that a rank does. Peers are positions in the group.
struct Step {
  enum class Kind : uint8_t { kSend, kReceive, kReduce };

  Kind kind = Kind::kSend;
  // The other rank of a send or receive.
  int peer = 0;
  // Read by a send, written by the others; never empty.
  Piece piece;
  // Reduce: the operands, combined from the left, each with as many elements as `piece`, which may be one of them.
  std::vector<Piece> sources;
  // Reduce: the sources are all that the ranks contribute, so that the
  // average's division and the postscale are applied now, before rounding.
  bool finish = false;

  static Step Send(int peer, Piece piece);
  static Step Receive(int peer, Piece piece);
  static Step Reduce(Piece target, std::vector<Piece> sources, bool finish);
};

// Sends and receives of a round start together, in their order, and go on at the same time: none writes elements that
// another reads or writes. The reduces come after them in the list and run in their order, when all transfers are
// complete.
using Round = std::vector<Step>;

// One rank's steps of one collective. Pure data: no pointers, no element type.
// A rank begins a round when its own round before is done; beyond that only the transfers order the ranks. Between two
// ranks the n-th send matches the n-th receive, with equal counts.
struct Schedule {
  // "ring allreduce", ...; static.
  absl::string_view algorithm;
  // Elements of scratch that the steps need.
  int64_t scratch_count = 0;
  std::vector<Round> rounds;

  // Rounds without steps are left out.
  void Append(Round round);
  // A line for the algorithm and one for each round.
  std::string ToString() const;
};

// Cuts `count` elements of the working buffer into `size` contiguous shares in
// order of position, the first ones longer by one element where it does not
// divide. Shares may be empty.
std::vector<Piece> EvenShares(int64_t count, int size);

// The same for shares of given lengths.
std::vector<Piece> SharesOf(absl::Span<const int64_t> counts);

// The schedule of a reduction over one rank.
Schedule FinishAlone(absl::string_view algorithm, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SCHEDULE_H_
