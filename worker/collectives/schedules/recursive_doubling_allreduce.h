#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RECURSIVE_DOUBLING_ALLREDUCE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RECURSIVE_DOUBLING_ALLREDUCE_H_

#include <cstdint>

#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For few elements on many ranks: log2(size) rounds in which two ranks exchange
// all elements and both combine them; scratch is `count`. Where `size` is no
// power of two, P the next smaller one and e = size - P, the first 2 e positions
// go in pairs: the odd one gives its elements to the even one before and gets the
// result after. Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH" (2005).
//
// Equal to the bit on all ranks: the partial result of a set of neighbouring
// positions is always "lower half, then upper half", by whichever rank it is
// computed, so all evaluate one expression, the same for each element: for 6
// ranks ((0+1)+(2+3))+(4+5). Element types are rounded at each step.
Schedule RecursiveDoublingAllreduce(int position, int size, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RECURSIVE_DOUBLING_ALLREDUCE_H_
