#ifndef FARANDOLE_WORKER_CORE_RELAX_H_
#define FARANDOLE_WORKER_CORE_RELAX_H_

namespace farandole {

// Between two looks at memory that another thread is to change: lets the processor do less, and other threads of the
// same core more. Some tens of nanoseconds at most.
void Relax();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_RELAX_H_
