#include "worker/transport/hosts/shared_host_part.h"

#include <cstring>

#include "worker/kernels/reduce.h"
#include "worker/kernels/scale.h"

namespace farandole {

SharedHostPart::SharedHostPart(ShmTransport* transport, const Collective& collective, const ExchangeShares& shares,
                               absl::Span<const int> locals, int own)
    : transport_(transport),
      collective_(collective),
      shares_(shares),
      locals_(locals.begin(), locals.end()),
      own_(own),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      combines_from_stage_(!collective.contributes || collective.prescale != 1.0) {}

char* SharedHostPart::StageOf(int local, int64_t chunk, int64_t element) const {
  char* stage = transport_->Stage(locals_[local], collective_.sequence, static_cast<uint64_t>(chunk));
  return stage + (element - shares_.ChunkOf(chunk).offset) * element_bytes_;
}

void SharedHostPart::Say(std::atomic<uint64_t>& word, int64_t chunk) {
  word.store(ShmTransport::ProgressWord(collective_.sequence, static_cast<uint64_t>(chunk) + 1));
  transport_->Ring(locals_);
}

bool SharedHostPart::CanContribute(int64_t chunk) {
  return transport_->StageIsFree(collective_.sequence, static_cast<uint64_t>(chunk));
}

void SharedHostPart::Contribute(int64_t chunk) {
  const Piece all = shares_.ChunkOf(chunk);
  if (Owns() && !combines_from_stage_) {
    // The own share is combined from where it is.
    const Piece share = shares_.ShareOf(chunk, own_);
    Stage(chunk, all.offset, share.offset);
    Stage(chunk, share.offset + share.count, all.offset + all.count);
  } else {
    Stage(chunk, all.offset, all.offset + all.count);
  }
  transport_->UseStage(collective_.sequence, static_cast<uint64_t>(chunk), locals_);
  Say(transport_->progress(transport_->rank()).staged, chunk);
}

void SharedHostPart::Stage(int64_t chunk, int64_t begin, int64_t end) {
  if (begin >= end) return;
  char* stage = StageOf(own_, chunk, begin);
  if (!collective_.contributes) return FillIdentity(collective_.dtype, collective_.reduce_op, stage, end - begin);
  walk_.ForEach(begin, end, [&](const char* input, char*, int64_t from, int64_t count) {
    ScaleCopy(collective_.dtype, input, stage + from * element_bytes_, count, collective_.prescale);
  });
}

bool SharedHostPart::CanCombine(int64_t chunk) {
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, static_cast<uint64_t>(chunk) + 1);
  for (const int local : locals_) {
    if (transport_->progress(local).staged.load() < word) return false;
  }
  return true;
}

void SharedHostPart::Combine(int64_t chunk) {
  const Piece share = shares_.ShareOf(chunk, own_);
  // The completing reduction divides.
  const ReduceOp op = collective_.reduce_op == ReduceOp::kAverage ? ReduceOp::kSum : collective_.reduce_op;
  absl::InlinedVector<const void*, 8> inputs(locals_.size());
  const auto combine = [&](const char* input, int64_t from, int64_t count) {
    const int64_t element = share.offset + from;
    for (size_t local = 0; local < inputs.size(); ++local)
      inputs[local] = StageOf(static_cast<int>(local), chunk, element);
    if (!combines_from_stage_) inputs[own_] = input;
    Reduce(collective_.dtype, op, inputs, nullptr, StageOf(own_, chunk, element), count, 1.0, 1);
  };
  if (combines_from_stage_) {
    combine(nullptr, 0, share.count);
  } else {
    walk_.ForEach(share.offset, share.offset + share.count,
                  [&](const char* input, char*, int64_t from, int64_t count) { combine(input, from, count); });
  }
}

void SharedHostPart::Publish(int64_t chunk) { Say(transport_->progress(transport_->rank()).reduced, chunk); }

bool SharedHostPart::CanCollect(int64_t chunk) {
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, static_cast<uint64_t>(chunk) + 1);
  for (int owner = 0; owner < shares_.owners(); ++owner) {
    if (transport_->progress(locals_[owner]).reduced.load() < word) return false;
  }
  return true;
}

void SharedHostPart::Collect(int64_t chunk) {
  for (int owner = 0; owner < shares_.owners(); ++owner) CopyOut(owner, chunk, shares_.ShareOf(chunk, owner));
  Say(transport_->progress(transport_->rank()).consumed, chunk);
}

void SharedHostPart::CopyOut(int local, int64_t chunk, const Piece& piece) {
  if (piece.count == 0 || !collective_.contributes) return;
  const char* stage = StageOf(local, chunk, piece.offset);
  walk_.ForEach(piece.offset, piece.offset + piece.count, [&](const char*, char* output, int64_t from, int64_t count) {
    std::memcpy(output, stage + from * element_bytes_, static_cast<size_t>(count * element_bytes_));
  });
}

}  // namespace farandole
