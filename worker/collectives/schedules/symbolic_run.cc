#include "worker/collectives/schedules/symbolic_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole {
namespace {

bool IsTransfer(const Step& step) { return step.kind != Step::Kind::kReduce; }

bool Overlap(const Piece& a, const Piece& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

}  // namespace

SymbolicRun::SymbolicRun(std::vector<Schedule> schedules, int64_t work_count)
    : schedules_(std::move(schedules)), ranks_(schedules_.size()) {
  for (int rank = 0; rank < size(); ++rank) {
    ranks_[rank].heard = uint64_t{1} << rank;
    ranks_[rank].work.assign(work_count, kNothing);
    ranks_[rank].scratch.assign(schedules_[rank].scratch_count, kNothing);
  }
}

SymbolicRun::Value SymbolicRun::Contribution(int rank, int64_t element) {
  Expression expression;
  expression.rank = rank;
  expression.element = element;
  expression.ranks = uint64_t{1} << rank;
  return Intern(expression);
}

void SymbolicRun::ContributeAll() {
  for (int rank = 0; rank < size(); ++rank) {
    const int64_t count = static_cast<int64_t>(ranks_[rank].work.size());
    for (int64_t i = 0; i < count; ++i) Set(rank, i, Contribution(rank, i));
  }
}

void SymbolicRun::Set(int rank, int64_t offset, Value value) { ranks_[rank].work.at(offset) = value; }

void SymbolicRun::SetInput(int rank, std::vector<Value> values) { ranks_[rank].input = std::move(values); }

SymbolicRun::Value SymbolicRun::At(int rank, int64_t offset) const { return ranks_[rank].work.at(offset); }

absl::Status SymbolicRun::Run() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int rank = 0; rank < size(); ++rank) {
      absl::Status advanced = Advance(rank, &moved);
      if (!advanced.ok()) return advanced;
    }
  }
  for (int rank = 0; rank < size(); ++rank) {
    if (!IsDone(rank)) return Fault(rank, "waits for ever");
  }
  return absl::OkStatus();
}

absl::Status SymbolicRun::Advance(int rank, bool* moved) {
  Rank& state = ranks_[rank];
  if (IsDone(rank)) return absl::OkStatus();
  const Round& round = schedules_[rank].rounds[state.round];
  if (!state.started) {
    absl::Status started = Start(rank);
    if (!started.ok()) return started;
    *moved = true;
  }
  for (const Step& step : round) {
    if (!IsTransfer(step)) continue;
    const bool sends = step.kind == Step::Kind::kSend;
    absl::Status matched = sends ? Match(rank, step.peer, moved) : Match(step.peer, rank, moved);
    if (!matched.ok()) return matched;
  }
  if (state.pending > 0) return absl::OkStatus();
  for (const Step& step : round) {
    if (IsTransfer(step)) continue;
    absl::Status reduced = Reduce(rank, step);
    if (!reduced.ok()) return reduced;
  }
  ++state.round;
  state.started = false;
  *moved = true;
  return absl::OkStatus();
}

absl::Status SymbolicRun::Start(int rank) {
  Rank& state = ranks_[rank];
  const Round& round = schedules_[rank].rounds[state.round];
  absl::Status checked = CheckRound(rank, round);
  if (!checked.ok()) return checked;
  for (const Step& step : round) {
    if (step.kind == Step::Kind::kSend) {
      sends_[{rank, step.peer}].push_back(&step);
    } else if (step.kind == Step::Kind::kReceive) {
      receives_[{step.peer, rank}].push_back(&step);
    }
    if (IsTransfer(step)) ++state.pending;
  }
  state.started = true;
  state.known = state.heard;
  return absl::OkStatus();
}

absl::Status SymbolicRun::CheckBounds(int rank, const Step& step) const {
  std::vector<Piece> pieces = step.sources;
  for (const Piece& source : step.sources) {
    if (source.count != step.piece.count) {
      return Fault(rank, "reduces pieces of different lengths");
    }
  }
  pieces.push_back(step.piece);
  for (const Piece& piece : pieces) {
    const size_t limit = BufferOf(rank, piece.buffer).size();
    if (piece.offset < 0 || piece.count <= 0 || static_cast<size_t>(piece.offset + piece.count) > limit) {
      return Fault(rank, "leaves its buffer");
    }
  }
  if (step.piece.buffer == Buffer::kInput && step.kind != Step::Kind::kSend) {
    return Fault(rank, "writes into its input");
  }
  if (IsTransfer(step) && (step.peer < 0 || step.peer >= size() || step.peer == rank)) {
    return Fault(rank, absl::StrCat("has no peer ", step.peer));
  }
  return absl::OkStatus();
}

absl::Status SymbolicRun::CheckRound(int rank, const Round& round) const {
  bool reduces = false;
  for (size_t i = 0; i < round.size(); ++i) {
    absl::Status checked = CheckBounds(rank, round[i]);
    if (!checked.ok()) return checked;
    if (!IsTransfer(round[i])) reduces = true;
    if (IsTransfer(round[i]) && reduces) {
      return Fault(rank, "transfers after a reduction of the same round");
    }
    if (round[i].kind != Step::Kind::kReceive) continue;
    for (size_t j = 0; j < round.size(); ++j) {
      if (j != i && IsTransfer(round[j]) && Overlap(round[i].piece, round[j].piece)) {
        return Fault(rank, "receives into what another transfer uses");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SymbolicRun::Match(int from, int to, bool* moved) {
  std::deque<const Step*>& sends = sends_[{from, to}];
  std::deque<const Step*>& receives = receives_[{from, to}];
  while (!sends.empty() && !receives.empty()) {
    const Piece& source = sends.front()->piece;
    const Piece& target = receives.front()->piece;
    if (source.count != target.count) {
      return Fault(to,
                   absl::StrCat("receives ", target.count, " elements from ", from, ", which sends ", source.count));
    }
    for (int64_t i = 0; i < source.count; ++i) {
      BufferOf(to, target.buffer)[target.offset + i] = BufferOf(from, source.buffer)[source.offset + i];
    }
    ranks_[to].heard |= ranks_[from].known;
    --ranks_[from].pending;
    --ranks_[to].pending;
    sends.pop_front();
    receives.pop_front();
    *moved = true;
  }
  return absl::OkStatus();
}

absl::Status SymbolicRun::Reduce(int rank, const Step& step) {
  for (int64_t i = 0; i < step.piece.count; ++i) {
    std::vector<Value> operands;
    for (const Piece& source : step.sources) {
      operands.push_back(BufferOf(rank, source.buffer)[source.offset + i]);
    }
    Value combined = kNothing;
    absl::Status status = Combine(operands, step.finish, &combined);
    if (!status.ok()) return Fault(rank, std::string(status.message()));
    BufferOf(rank, step.piece.buffer)[step.piece.offset + i] = combined;
  }
  return absl::OkStatus();
}

absl::Status SymbolicRun::Combine(const std::vector<Value>& operands, bool finish, Value* combined) {
  Expression expression;
  expression.finished = finish;
  expression.operands = operands;
  for (const Value operand : operands) {
    if (operand == kNothing) return absl::InternalError("reduces nothing");
    const Expression& part = expressions_[operand];
    if (part.finished) return absl::InternalError("reduces a result");
    if ((part.ranks & expression.ranks) != 0) {
      return absl::InternalError(absl::StrCat("counts a contribution twice: ", Describe(operand)));
    }
    if (expression.ranks != 0 && part.element != expression.element) {
      return absl::InternalError("reduces different elements");
    }
    expression.element = part.element;
    expression.ranks |= part.ranks;
  }
  *combined = Intern(expression);
  return absl::OkStatus();
}

bool SymbolicRun::IsResult(Value value, int64_t element) const {
  if (value == kNothing) return false;
  const Expression& expression = expressions_[value];
  const uint64_t all = ~uint64_t{0} >> (64 - size());
  return expression.finished && expression.ranks == all && expression.element == element;
}

std::string SymbolicRun::Describe(Value value) const {
  if (value == kNothing) return "nothing";
  const Expression& expression = expressions_[value];
  if (expression.operands.empty()) return absl::StrCat(expression.rank);
  const std::string sum = absl::StrJoin(expression.operands, "+", [this](std::string* text, Value operand) {
    const bool leaf = expressions_[operand].operands.empty();
    absl::StrAppend(text, leaf ? "" : "(", Describe(operand), leaf ? "" : ")");
  });
  return expression.finished ? absl::StrCat("finish(", sum, ")") : sum;
}

bool SymbolicRun::HasHeardOfAll(int rank) const { return ranks_[rank].heard == ~uint64_t{0} >> (64 - size()); }

absl::Status SymbolicRun::Fault(int rank, const std::string& what) const {
  return absl::InternalError(
      absl::StrCat("rank ", rank, " in round ", ranks_[rank].round, " ", what, "\n", schedules_[rank].ToString()));
}

bool SymbolicRun::IsDone(int rank) const { return ranks_[rank].round == schedules_[rank].rounds.size(); }

const std::vector<SymbolicRun::Value>& SymbolicRun::BufferOf(int rank, Buffer buffer) const {
  const Rank& state = ranks_[rank];
  if (buffer == Buffer::kInput) return state.input;
  return buffer == Buffer::kWork ? state.work : state.scratch;
}

std::vector<SymbolicRun::Value>& SymbolicRun::BufferOf(int rank, Buffer buffer) {
  return const_cast<std::vector<Value>&>(std::as_const(*this).BufferOf(rank, buffer));
}

SymbolicRun::Value SymbolicRun::Intern(const Expression& expression) {
  std::vector<int64_t> key = {expression.rank, expression.element, expression.finished ? 1 : 0};
  key.insert(key.end(), expression.operands.begin(), expression.operands.end());
  const auto [entry, added] = interned_.emplace(std::move(key), static_cast<Value>(expressions_.size()));
  if (added) expressions_.push_back(expression);
  return entry->second;
}

}  // namespace farandole
