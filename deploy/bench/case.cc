#include "deploy/bench/case.h"

namespace farandole::bench {

uint64_t Case::Bytes(int size) const {
  const uint64_t own = count * SizeOf(dtype);
  return TraitsOf(op).rows == OpTraits::Rows::kGathers ? own * static_cast<uint64_t>(size) : own;
}

}  // namespace farandole::bench
