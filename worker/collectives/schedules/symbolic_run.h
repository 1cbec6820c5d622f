#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SYMBOLIC_RUN_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SYMBOLIC_RUN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Runs the schedules of all ranks of one collective on expressions in place of
// numbers, for tests. Values are interned: two are equal only if they are one expression over the ranks' contributions,
// with equal order of operands and equal grouping, and so equal to the bit for all contributions.
//
// A send completes only together with its receive, as on the strictest possible transport: a schedule that runs here
// cannot deadlock on a real one. At most 64 ranks.
class SymbolicRun {
 public:
  using Value = int;
  static constexpr Value kNothing = -1;

  // `schedules` by position. The working buffers have `work_count` elements and
  // hold nothing.
  SymbolicRun(std::vector<Schedule> schedules, int64_t work_count);

  int size() const { return static_cast<int>(schedules_.size()); }

  // The value that `rank` has for `element` of the collective before it begins.
  Value Contribution(int rank, int64_t element);
  // Puts each rank's contribution to a reduction into the working buffers.
  void ContributeAll();
  void Set(int rank, int64_t offset, Value value);
  Value At(int rank, int64_t offset) const;
  // Fills the rank's input buffer, which is empty at first.
  void SetInput(int rank, std::vector<Value> values);

  // Runs all ranks to the end. INTERNAL, with rank and round: a step leaves its buffer, or writes into the input; steps
  // of a round conflict; a transfer is matched by one of another length, or never; a rank's contribution is counted
  // twice; a reduction has no operand, or one that is finished already or has different elements.
  absl::Status Run();

  // Whether the value is finished and has the contribution of every rank for
  // `element` in it. (None can be in it twice: see Run.)
  bool IsResult(Value value, int64_t element) const;
  // "finish(0+1+2)", "(0+1)+2": ranks as numbers.
  std::string Describe(Value value) const;
  // Whether something that happened on every rank before it sent has reached
  // `rank`.
  bool HasHeardOfAll(int rank) const;

 private:
  struct Expression {
    int rank = 0;  // of a contribution
    int64_t element = 0;
    uint64_t ranks = 0;  // bit by rank that is in it
    bool finished = false;
    std::vector<Value> operands;
  };
  struct Rank {
    size_t round = 0;
    int pending = 0;  // transfers of the round
    bool started = false;
    uint64_t heard = 0;  // bit by rank
    uint64_t known = 0;  // heard before the round: what its sends can carry
    std::vector<Value> work;
    std::vector<Value> scratch;
    std::vector<Value> input;
  };
  // Steps of one rank to or from one peer, not yet matched.
  using Queues = std::map<std::pair<int, int>, std::deque<const Step*>>;

  absl::Status Advance(int rank, bool* moved);
  absl::Status Start(int rank);
  absl::Status CheckBounds(int rank, const Step& step) const;
  absl::Status CheckRound(int rank, const Round& round) const;
  absl::Status Match(int from, int to, bool* moved);
  absl::Status Reduce(int rank, const Step& step);
  absl::Status Combine(const std::vector<Value>& operands, bool finish, Value* combined);
  absl::Status Fault(int rank, const std::string& what) const;
  bool IsDone(int rank) const;
  std::vector<Value>& BufferOf(int rank, Buffer buffer);
  const std::vector<Value>& BufferOf(int rank, Buffer buffer) const;
  Value Intern(const Expression& expression);

  const std::vector<Schedule> schedules_;
  std::vector<Rank> ranks_;
  Queues sends_;
  Queues receives_;
  std::vector<Expression> expressions_;
  std::map<std::vector<int64_t>, Value> interned_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_SYMBOLIC_RUN_H_
