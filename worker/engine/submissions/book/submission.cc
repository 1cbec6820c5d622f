#include "worker/engine/submissions/book/submission.h"

#include <cstring>

namespace farandole {
namespace {

// splitmix64's finalizer over a running value: absl::Hash differs from process to process, and this must not.
uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) + 0x9e3779b97f4a7c15ULL;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
  return state ^ (state >> 31);
}

// Of no other value that is mixed in.
constexpr uint64_t kOnGpuMark = 0x67707567707567;
constexpr uint64_t kCapturedMark = 0x68706172676870;
constexpr uint64_t kGroupMark = 0x70756f726770756f;

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

bool IsOf(const NamedAllreduce& call, const Submission& submission) {
  // Bit by bit: a zero's sign is part of the signature.
  return submission.op == OpType::kAllreduce && submission.fragments.size() == 1 && submission.ndims.size() == 1 &&
         call.dtype == static_cast<int32_t>(submission.dtype) &&
         call.reduce_op == static_cast<int32_t>(submission.reduce_op) &&
         call.group == static_cast<int32_t>(submission.group) && BitsOf(call.prescale) == BitsOf(submission.prescale) &&
         BitsOf(call.postscale) == BitsOf(submission.postscale) && call.shape == submission.dims &&
         submission.name == call.name;
}

uint64_t SignatureOf(const Submission& submission) {
  const bool has_own_rows = TraitsOf(submission.op).has_own_rows;
  uint64_t hash = Mix(static_cast<uint64_t>(submission.op), static_cast<uint64_t>(submission.dtype));
  hash = Mix(hash, static_cast<uint64_t>(submission.reduce_op) << 32 | static_cast<uint32_t>(submission.root));
  hash = Mix(hash, BitsOf(submission.prescale));
  hash = Mix(hash, BitsOf(submission.postscale));
  if (submission.gpu != nullptr) hash = Mix(hash, kOnGpuMark);
  if (submission.ready.is_captured()) hash = Mix(hash, kCapturedMark);
  size_t at = 0;
  for (int32_t ndim : submission.ndims) {
    hash = Mix(hash, static_cast<uint64_t>(ndim));
    for (int32_t dim = 0; dim < ndim; ++dim, ++at) {
      if (!(has_own_rows && dim == 0)) hash = Mix(hash, static_cast<uint64_t>(submission.dims[at]));
    }
  }
  if (!submission.states_group) return hash;
  hash = Mix(Mix(hash, kGroupMark), submission.members.size());
  for (const GroupMember& member : submission.members) {
    hash = Mix(hash, static_cast<uint64_t>(member.dtype) << 1 | (member.is_on_gpu ? 1 : 0));
    hash = Mix(hash, member.dims.size());
    for (size_t dim = has_own_rows ? 1 : 0; dim < member.dims.size(); ++dim) {
      hash = Mix(hash, static_cast<uint64_t>(member.dims[dim]));
    }
  }
  return hash;
}

}  // namespace farandole
