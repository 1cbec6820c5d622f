#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_WORKER_ENVIRONMENT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_WORKER_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deploy/launcher/policy/host_list.h"

namespace farandole::launcher {

// The variable's value; "": it is not there.
std::string ValueOf(const std::vector<std::string>& variables, const std::string& name);

// `base` with `overlay`'s variables in place of those of the same name. All are "NAME=value".
std::vector<std::string> OverlayVariables(const std::vector<std::string>& base,
                                          const std::vector<std::string>& overlay);

// The variables that go to other hosts: all but those of this host, of its user and of this session (HOME, TMPDIR,
// SSH_*, CUDA_VISIBLE_DEVICES, ...), and those too that `exported` names: NAME (as it is in `all`; left out where it is
// not there) or NAME=value.
std::vector<std::string> TravellingVariables(const std::vector<std::string>& all,
                                             const std::vector<std::string>& exported);

// Further settings of an elastic job's workers; "NAME=value" each, and only those that are not 0.
struct ElasticSettings {
  int min_size = 0;
  int max_size = 0;
  int64_t shortage_limit_ms = 0;
  int reset_limit = 0;
  int64_t least_cooldown_ms = 0;
  int64_t most_cooldown_ms = 0;

  std::vector<std::string> Variables() const;
};

// The settings that a launcher passes to its workers by environment; the names are those that worker/farandole.h reads.
struct WorkerSettings {
  // The launcher's own environment, "NAME=value". The settings below replace variables of the same name.
  std::vector<std::string> inherited;
  // FARANDOLE_COORDINATOR ("": there is none, and the user's, with its files, is left alone), FARANDOLE_TOKEN_FILE,
  // FARANDOLE_CA_FILE ("": no TLS), FARANDOLE_JOB, FARANDOLE_SIZE. FARANDOLE_CERT_FILE and FARANDOLE_KEY_FILE are the
  // launcher's own: workers have the token of their run.
  std::string coordinator;
  std::string token_file;
  std::string ca_file;
  std::string job;
  int size = 1;
  // How many of them run on this host.
  int size_here = 1;
  // Worker N of the launch has FARANDOLE_LAUNCH_INDEX first_index + N: several launches may serve one job.
  int first_index = 0;
  // FARANDOLE_JOIN_TIMEOUT_MS; 0: not set.
  int64_t join_timeout_ms = 0;
  // Processor cores of this host that may be used.
  int cores = 1;
  // The folder of the drop-in `horovod` package, to put in front of PYTHONPATH; "": none. With it, workers also get
  // HOROVOD_HOSTNAME, and in a job that is not elastic HOROVOD_SIZE, HOROVOD_RANK, HOROVOD_LOCAL_SIZE,
  // HOROVOD_LOCAL_RANK, HOROVOD_CROSS_SIZE and HOROVOD_CROSS_RANK; in an elastic job HOROVOD_ELASTIC instead.
  std::string drop_in;
  bool is_elastic = false;
  // NCCL_SOCKET_IFNAME (NcclInterfaces); "": not set.
  std::string nccl_interfaces;
  // This host as the launcher names it, and all hosts of the job, which are not known where it is elastic.
  std::string host;
  std::vector<HostShare> shares;

  // OMP_NUM_THREADS and TF_NUM_INTEROP_THREADS, by name, unless the user has set them: the cores, shared out among this
  // host's workers, at least 1. Each worker would take all of them otherwise. TensorFlow's threads for ops spin when
  // they find none, and so keep cores from the ranks for which a collective waits.
  std::map<std::string, std::string> ThreadVariables() const;

  // The environment of a worker of the launch. PYTHONUNBUFFERED is 1 if the user has not set it: Python would hold back
  // its output to a pipe. `slot`: its place on this host. `local_size`: how many are started on this host at the same
  // time.
  std::vector<std::string> Environment(int worker, int slot, int local_size) const;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_WORKER_ENVIRONMENT_H_
