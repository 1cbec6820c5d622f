#ifndef FARANDOLE_WORKER_KERNELS_FLOAT_ENVIRONMENT_H_
#define FARANDOLE_WORKER_KERNELS_FLOAT_ENVIRONMENT_H_

#include <cfenv>

namespace farandole {

// While it lives, the calling thread rounds to nearest even and computes with
// subnormals. Frameworks let users flush subnormals to zero on a thread
// (torch.set_flush_denormal), and whichever thread waits does the arithmetic:
// without this, ranks could differ in the last bits. Costs a few cycles where
// the mode is already the default. Lives on the stack of one thread.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_FLOAT_ENVIRONMENT_H_
