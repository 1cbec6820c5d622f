#include "worker/transport/shm/staged_rounds.h"

#include <algorithm>

#include "worker/kernels/scale.h"
#include "worker/transport/shm/shm_transport.h"

namespace farandole {

bool StagedRounds::PeersStaged(uint64_t round) const {
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, round + 1);
  return std::all_of(collective_.ranks.begin(), collective_.ranks.end(), [&](int rank) {
    return rank == transport_->rank() || transport_->progress(rank).staged.load() >= word;
  });
}

absl::StatusOr<bool> StagedRounds::Advance() {
  if (absl::Status failed = transport_->error(); !failed.ok()) return failed;
  ShmLayout::Progress& own = transport_->progress(transport_->rank());
  moved_ = true;
  if (consumed_ == rounds_) return true;
  if (consumed_ < staged_ && PeersStaged(consumed_)) {
    Consume(consumed_++);
    own.consumed.store(ShmTransport::ProgressWord(collective_.sequence, consumed_));
  } else if (staged_ < rounds_ && transport_->StageIsFree(collective_.sequence, staged_)) {
    Stage(staged_++);
    own.staged.store(ShmTransport::ProgressWord(collective_.sequence, staged_));
  } else {
    moved_ = false;
    return false;
  }
  transport_->Ring(collective_.ranks);
  return consumed_ == rounds_;
}

void StageContribution(ShmTransport* transport, const Collective& collective, FragmentWalk* walk, int64_t begin,
                       int64_t end, char* stage) {
  if (begin >= end) return;
  if (!collective.contributes) {
    FillIdentity(collective.dtype, collective.reduce_op, stage, end - begin);
    return;
  }
  const auto element_bytes = static_cast<int64_t>(SizeOf(collective.dtype));
  walk->ForEach(begin, end, [&](const char* input, char*, int64_t from, int64_t count) {
    char* to = stage + from * element_bytes;
    if (collective.prescale == 1.0) {
      transport->copier().Copy(to, input, count * element_bytes);
    } else {
      ScaleCopy(collective.dtype, input, to, count, collective.prescale);
    }
  });
}

}  // namespace farandole
