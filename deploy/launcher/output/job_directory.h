#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_JOB_DIRECTORY_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_JOB_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole::launcher {

// Where a launcher keeps one job: the embedded coordinator's state directory. One launcher at a time holds it, by a
// lock, as long as this object lives; the kernel releases the lock when the process ends in any way. Movable.
class JobDirectory {
 public:
  // The directory of an explicitly named job, or of an explicitly named path.
  //   ALREADY_EXISTS     another launcher holds it (its pid is named)
  //   PERMISSION_DENIED  it cannot be made or written; the text names it
  static absl::StatusOr<JobDirectory> Open(const std::string& path, const std::string& job);
  // JOBS/NAME, or where another launcher holds that, JOBS/NAME-2, -3 and so on, up to -999.
  //   errors as above
  static absl::StatusOr<JobDirectory> OpenNext(const std::string& jobs, const std::string& name);

  ~JobDirectory();
  JobDirectory(JobDirectory&& other) noexcept;
  JobDirectory& operator=(JobDirectory&&) = delete;

  const std::string& path() const { return path_; }
  // The job's name, with the number that OpenNext may have added.
  const std::string& job() const { return job_; }

 private:
  JobDirectory(std::string path, std::string job, int lock_fd);

  const std::string path_;
  const std::string job_;
  int lock_fd_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_JOB_DIRECTORY_H_
