#ifndef FARANDOLE_SDK_MXNET_PUSH_H_
#define FARANDOLE_SDK_MXNET_PUSH_H_

#include <cstdint>

#include "worker/farandole.h"

// The functions that farandole.mxnet calls (sdk/python/farandole/mxnet/_engine.py).
extern "C" {

// The operations, as adapter::Op numbers them.
typedef struct farandole_mxnet_terms {
  int32_t op;
  int32_t reduce_op;
  int32_t root;
  int32_t group;
  int32_t priority;  // the engine runs operations of higher priority first
  int32_t waits;     // 1: the engine (NaiveEngine) has an operation end where it begins
  double prescale;
  double postscale;
  const char* name;  // operations of one name run in the order in which they were pushed
} farandole_mxnet_terms;

// Has MXNet's engine run a collective as soon as the `count` NDArrays `inputs` are written and `outputs` may be, and
// returns at once. An output has its final shape, and may be its input. `splits`: of an alltoall, or NULL. NULL: done;
// else why not, valid until the thread's next call. Waiting for an output reports a later failure.
FARANDOLE_EXPORT const char* farandole_mxnet_push(const farandole_mxnet_terms* terms, void* const* inputs,
                                                  void* const* outputs, int32_t count, const int64_t* splits,
                                                  int32_t splits_count);
}

#endif  // FARANDOLE_SDK_MXNET_PUSH_H_
