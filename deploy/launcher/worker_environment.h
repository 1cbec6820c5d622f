#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_ENVIRONMENT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace farandole::launcher {

// What the launcher tells its workers by environment; the names are those that worker/farandole.h reads.
struct WorkerSettings {
  // The launcher's own environment, "NAME=value". What is told below replaces variables of the same name.
  std::vector<std::string> inherited;
  // FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE, FARANDOLE_JOB, FARANDOLE_SIZE.
  std::string coordinator;
  std::string token_file;
  std::string job;
  int size = 1;
  // FARANDOLE_JOIN_TIMEOUT_MS; 0: not set.
  long join_timeout_ms = 0;
  // Processor cores that the launcher may use.
  int cores = 1;

  // OMP_NUM_THREADS where the user has not set it: the cores, shared out among the workers, at least 1. Each would take
  // all of them otherwise.
  int OmpThreads() const;
  bool SetsOmpThreads() const;

  // The environment of worker `index` (FARANDOLE_LAUNCH_INDEX). PYTHONUNBUFFERED is 1 where the user has not set it:
  // Python would hold back what it prints to a pipe.
  std::vector<std::string> Environment(int index) const;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_ENVIRONMENT_H_
