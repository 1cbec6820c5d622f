#include "deploy/bench/case.h"

namespace farandole::bench {

const char* Name(Op op) {
  switch (op) {
    case Op::kAllreduce:
      return "allreduce";
    case Op::kAllgather:
      return "allgather";
    case Op::kBroadcast:
      return "broadcast";
    case Op::kBarrier:
      return "barrier";
  }
  return "unknown";
}

uint64_t Case::Bytes(int size) const {
  const uint64_t own = count * SizeOf(dtype);
  return op == Op::kAllgather ? own * static_cast<uint64_t>(size) : own;
}

}  // namespace farandole::bench
