#include "worker/collectives/schedules/recursive_doubling_allreduce.h"

namespace farandole {

Schedule RecursiveDoublingAllreduce(int position, int size, int64_t count) {
  constexpr absl::string_view kAlgorithm = "recursive doubling allreduce";
  if (size == 1) return FinishAlone(kAlgorithm, count);
  Schedule schedule;
  schedule.algorithm = kAlgorithm;
  if (count == 0) return schedule;
  int power = 1;
  while (power * 2 <= size) power *= 2;
  const int paired = 2 * (size - power);
  const Piece all = {Buffer::kWork, 0, count};
  const Piece received = {Buffer::kScratch, 0, count};

  if (position < paired && position % 2 == 1) {
    schedule.Append({Step::Send(position - 1, all)});
    schedule.Append({Step::Receive(position - 1, all)});
    return schedule;
  }
  schedule.scratch_count = count;
  if (position < paired) {
    schedule.Append({Step::Receive(position + 1, received), Step::Reduce(all, {all, received}, false)});
  }
  // The number among the ranks that exchange, and back.
  const int number = position < paired ? position / 2 : position - paired / 2;
  const auto position_of = [paired](int other) { return other < paired / 2 ? 2 * other : other + paired / 2; };
  for (int distance = 1; distance < power; distance *= 2) {
    const int peer = position_of(number ^ distance);
    const bool finish = distance * 2 == power;
    const Piece& lower = peer < position ? received : all;
    const Piece& upper = peer < position ? all : received;
    schedule.Append({Step::Send(peer, all), Step::Receive(peer, received), Step::Reduce(all, {lower, upper}, finish)});
  }
  if (position < paired) schedule.Append({Step::Send(position + 1, all)});
  return schedule;
}

}  // namespace farandole
