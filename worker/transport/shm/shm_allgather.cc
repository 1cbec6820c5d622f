#include "worker/transport/shm/shm_allgather.h"

#include <algorithm>
#include <cstring>

#include "worker/transport/shm/shm_transport.h"

namespace farandole {

ShmAllgather::ShmAllgather(ShmTransport* transport, const Collective& collective)
    : StagedRounds(transport, collective),
      element_bytes_(SizeOf(collective.dtype)),
      chunk_elements_(static_cast<int64_t>(kStageBytes / element_bytes_)) {
  int64_t displacement = 0;
  int64_t most = 0;
  for (int64_t count : collective.counts) {
    displacements_.push_back(displacement);
    displacement += count;
    most = std::max(most, count);
  }
  SetRounds(most, chunk_elements_);
}

int64_t ShmAllgather::RoundEnd(int position, uint64_t round) const {
  return std::min(static_cast<int64_t>(round + 1) * chunk_elements_, collective_.counts[position]);
}

void ShmAllgather::Stage(uint64_t round) {
  const int64_t begin = static_cast<int64_t>(round) * chunk_elements_;
  const int64_t end = RoundEnd(collective_.position, round);
  if (begin >= end) return;
  const char* input = static_cast<const char*>(collective_.fragments[0].input) + begin * element_bytes_;
  transport_->copier().Copy(transport_->Stage(transport_->rank(), collective_.sequence, round), input,
                            (end - begin) * element_bytes_);
  transport_->UseStage(collective_.sequence, round, collective_.ranks);
}

void ShmAllgather::Consume(uint64_t round) {
  if (!collective_.contributes) return;
  const Fragment& fragment = collective_.fragments[0];
  const int64_t begin = static_cast<int64_t>(round) * chunk_elements_;
  for (int position = 0; position < static_cast<int>(collective_.ranks.size()); ++position) {
    const int64_t end = RoundEnd(position, round);
    if (begin >= end) continue;
    const char* from = position == collective_.position
                           ? static_cast<const char*>(fragment.input) + begin * element_bytes_
                           : transport_->Stage(collective_.ranks[position], collective_.sequence, round);
    char* to = static_cast<char*>(fragment.output) + (displacements_[position] + begin) * element_bytes_;
    std::memcpy(to, from, (end - begin) * element_bytes_);
  }
}

}  // namespace farandole
