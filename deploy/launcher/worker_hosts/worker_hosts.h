#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOSTS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOSTS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/protocol/agent_messages.h"
#include "deploy/launcher/worker_hosts/local_worker_host.h"
#include "deploy/launcher/worker_hosts/ssh_worker_host.h"
#include "deploy/launcher/worker_hosts/worker_host.h"

namespace farandole::launcher {

// The hosts of a launch, by name: this one, which always is one, and others, which come and go. Owned by the launch;
// one thread.
class WorkerHosts {
 public:
  // `loop` and `listener` are borrowed; `ssh` and `order` are for other hosts.
  WorkerHosts(SshOptions ssh, AgentOrder order, EventLoop* loop, WorkerHostListener* listener);

  LocalWorkerHost* here() { return &here_; }
  // Makes the host's object; call Prepare on one that is not ready. `host.slots`: how many workers share the host's
  // cores.
  WorkerHost* Add(const HostSlots& host);
  // nullptr: there is none.
  WorkerHost* Find(const std::string& host) const;
  // The name of a host that was added; "" if it is not in use.
  std::string HostOf(const WorkerHost* worker_host) const;

  void SetReady(const WorkerHost* worker_host) { ready_.insert(worker_host); }
  bool is_ready(const WorkerHost* worker_host) const { return ready_.count(worker_host) > 0; }
  // The host is not of the launch any more, and may be added anew. Another host ends the workers that it has left, and
  // is forgotten when it is finished.
  void Release(const std::string& host);
  void RemoveReleased();

  void Signal(int signal, bool whole_group);
  // Of all hosts, also of those that are added later.
  void SetTerminals(const WorkerTerminals& terminals);
  void HoldOutput(bool hold);
  bool OnChildEnded(pid_t pid, WorkerEnd end);
  // Ends everything elsewhere, or here; Finished says that it is done.
  void Finish(bool elsewhere);
  bool AreFinished(bool elsewhere) const;

  // This one and all others, as long as they are not forgotten.
  std::vector<WorkerHost*> all();
  bool has_others() const { return !others_.empty(); }

 private:
  const SshOptions ssh_;
  const AgentOrder order_;
  EventLoop* const loop_;
  WorkerHostListener* const listener_;
  LocalWorkerHost here_;
  std::vector<std::unique_ptr<WorkerHost>> others_;
  std::map<std::string, WorkerHost*> by_host_;
  std::set<const WorkerHost*> ready_;
  std::set<const WorkerHost*> released_;
  WorkerTerminals terminals_;
  bool is_held_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOSTS_H_
