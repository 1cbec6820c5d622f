#include "worker/collectives/schedules/schedule.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole {
namespace {

constexpr const char* kBuffers[] = {"work", "scratch", "input"};

std::string Describe(const Piece& piece) {
  return absl::StrCat(kBuffers[static_cast<int>(piece.buffer)], "[", piece.offset, ",", piece.offset + piece.count,
                      ")");
}

std::string Describe(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSend:
      return absl::StrCat("send ", Describe(step.piece), " to ", step.peer);
    case Step::Kind::kReceive:
      return absl::StrCat("receive ", Describe(step.piece), " from ", step.peer);
    case Step::Kind::kReduce:
      break;
  }
  const std::string sources = absl::StrJoin(
      step.sources, " + ", [](std::string* text, const Piece& source) { absl::StrAppend(text, Describe(source)); });
  return absl::StrCat(step.finish ? "finish " : "reduce ", Describe(step.piece), " = ", sources);
}

}  // namespace

Step Step::Send(int peer, Piece piece) {
  Step step;
  step.kind = Kind::kSend;
  step.peer = peer;
  step.piece = piece;
  return step;
}

Step Step::Receive(int peer, Piece piece) {
  Step step;
  step.kind = Kind::kReceive;
  step.peer = peer;
  step.piece = piece;
  return step;
}

Step Step::Reduce(Piece target, std::vector<Piece> sources, bool finish) {
  Step step;
  step.kind = Kind::kReduce;
  step.piece = target;
  step.sources = std::move(sources);
  step.finish = finish;
  return step;
}

void Schedule::Append(Round round) {
  if (!round.empty()) rounds.push_back(std::move(round));
}

std::string Schedule::ToString() const {
  std::string text = absl::StrCat(algorithm, ", scratch ", scratch_count, "\n");
  for (size_t i = 0; i < rounds.size(); ++i) {
    absl::StrAppend(&text, "round ", i, ": ",
                    absl::StrJoin(rounds[i], "; ",
                                  [](std::string* line, const Step& step) { absl::StrAppend(line, Describe(step)); }),
                    "\n");
  }
  return text;
}

std::vector<Piece> EvenShares(int64_t count, int size) {
  std::vector<int64_t> counts(size, count / size);
  for (int position = 0; position < count % size; ++position) {
    ++counts[position];
  }
  return SharesOf(counts);
}

std::vector<Piece> SharesOf(absl::Span<const int64_t> counts) {
  std::vector<Piece> shares;
  shares.reserve(counts.size());
  int64_t offset = 0;
  for (const int64_t count : counts) {
    shares.push_back({Buffer::kWork, offset, count});
    offset += count;
  }
  return shares;
}

Schedule FinishAlone(absl::string_view algorithm, int64_t count) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  const Piece all = {Buffer::kWork, 0, count};
  if (count > 0) schedule.Append({Step::Reduce(all, {all}, true)});
  return schedule;
}

}  // namespace farandole
