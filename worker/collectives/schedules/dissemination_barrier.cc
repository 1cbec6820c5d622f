#include "worker/collectives/schedules/dissemination_barrier.h"

namespace farandole {

Schedule DisseminationBarrier(int position, int size) {
  Schedule schedule;
  schedule.algorithm = "dissemination barrier";
  const Piece sent = {Buffer::kScratch, 0, 1};
  const Piece received = {Buffer::kScratch, 1, 1};
  for (int distance = 1; distance < size; distance *= 2) {
    schedule.scratch_count = 2;
    schedule.Append(
        {Step::Send((position + distance) % size, sent), Step::Receive((position + size - distance) % size, received)});
  }
  return schedule;
}

}  // namespace farandole
