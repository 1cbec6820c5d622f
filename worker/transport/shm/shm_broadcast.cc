#include "worker/transport/shm/shm_broadcast.h"

#include <algorithm>
#include <cstring>

#include "worker/transport/shm/shm_transport.h"

namespace farandole {

ShmBroadcast::ShmBroadcast(ShmTransport* transport, const Collective& collective)
    : transport_(transport),
      collective_(collective),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(SizeOf(collective.dtype)),
      chunk_elements_(static_cast<int64_t>(kStageBytes / element_bytes_)),
      chunks_(static_cast<uint64_t>((collective.count + chunk_elements_ - 1) / chunk_elements_)) {}

void ShmBroadcast::Stage(int64_t begin, int64_t end) {
  char* stage = transport_->Stage(transport_->rank(), collective_.sequence, done_);
  walk_.ForEach(begin, end, [&](const char* input, char* output, int64_t from, int64_t count) {
    transport_->copier().Copy(stage + from * element_bytes_, input, count * element_bytes_);
    if (output != input) std::memcpy(output, input, count * element_bytes_);
  });
  transport_->UseStage(collective_.sequence, done_, collective_.ranks);
}

void ShmBroadcast::Copy(int64_t begin, int64_t end) {
  const char* stage = transport_->Stage(collective_.ranks[collective_.root], collective_.sequence, done_);
  walk_.ForEach(begin, end, [&](const char*, char* output, int64_t from, int64_t count) {
    std::memcpy(output, stage + from * element_bytes_, count * element_bytes_);
  });
}

absl::StatusOr<bool> ShmBroadcast::Advance() {
  if (absl::Status failed = transport_->error(); !failed.ok()) return failed;
  if (done_ == chunks_) return true;
  ShmLayout::Progress& own = transport_->progress(transport_->rank());
  const bool is_root = collective_.position == collective_.root;
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, done_ + 1);
  const int root_rank = collective_.ranks[collective_.root];
  moved_ = is_root ? transport_->StageIsFree(collective_.sequence, done_)
                   : transport_->progress(root_rank).staged.load() >= word;
  if (!moved_) return false;
  const int64_t begin = static_cast<int64_t>(done_) * chunk_elements_;
  const int64_t end = std::min(begin + chunk_elements_, collective_.count);
  if (is_root) {
    Stage(begin, end);
    own.staged.store(word);
    transport_->Ring(collective_.ranks);
  } else {
    Copy(begin, end);
  }
  own.consumed.store(word);
  if (!is_root) transport_->Ring(absl::MakeConstSpan(&root_rank, 1));
  return ++done_ == chunks_;
}

}  // namespace farandole
