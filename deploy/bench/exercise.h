#ifndef FARANDOLE_DEPLOY_BENCH_EXERCISE_H_
#define FARANDOLE_DEPLOY_BENCH_EXERCISE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/bench/case.h"

namespace farandole::bench {

// One rank's buffers for a case, and the operation on them, over and over. All ranks run the same steps in the same
// order, on farandole_init'ed workers. Owned and used by one thread.
class Exercise {
 public:
  Exercise(const Case& what, int rank, int size);
  virtual ~Exercise() = default;
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  // Makes what the case's op needs. Errors are the worker library's, if it gives no arena.
  static absl::StatusOr<std::unique_ptr<Exercise>> Make(const Case& what, int rank, int size);

  // Writes this rank's contributions of a turn: a step's results stand where its contributions stood.
  virtual void Rewrite(uint64_t turn) = 0;
  // All tensors of one step, until their results are there. Errors are the worker library's, with its sentence.
  virtual absl::Status Step() = 0;
  // How many elements of the step's results are wrong.
  virtual size_t CountWrong(uint64_t turn) = 0;

 protected:
  const Case& what() const { return case_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const Case case_;
  const int rank_;
  const int size_;
  std::vector<std::string> names_;
};

// The last call's error, with the library's sentence; OK for FARANDOLE_OK.
absl::Status CallStatus(int code);
// Waits for a submission and releases it.
absl::Status Finish(int64_t handle);

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_EXERCISE_H_
