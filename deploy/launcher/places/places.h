#ifndef FARANDOLE_DEPLOY_LAUNCHER_PLACES_PLACES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PLACES_PLACES_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launcher/places/local_place.h"
#include "deploy/launcher/places/place.h"
#include "deploy/launcher/places/ssh_place.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/process/event_loop.h"
#include "deploy/launcher/protocol/agent_messages.h"

namespace farandole::launcher {

// The places of a launch, by the names of their hosts: this process, which always is one, and other hosts, which come
// and go. Owned by the launch; one thread.
class Places {
 public:
  // `loop` and `listener` are borrowed; `ssh` and `order` are for other hosts.
  Places(SshOptions ssh, AgentOrder order, EventLoop* loop, PlaceListener* listener);

  LocalPlace* here() { return &here_; }
  // The host's place; one that is not ready is to be prepared. `host.slots`: how many workers share the host's cores.
  Place* Add(const HostSlots& host);
  // nullptr: there is none.
  Place* Find(const std::string& host) const;
  // The host of a place that was added; "" where it is not in use.
  std::string HostOf(const Place* place) const;

  void SetReady(const Place* place) { ready_.insert(place); }
  bool is_ready(const Place* place) const { return ready_.count(place) > 0; }
  // The host has no place any more, and may be added anew. A place elsewhere ends what it has left, and is forgotten
  // when it is finished.
  void Release(const std::string& host);
  void RemoveReleased();

  void Signal(int signal, bool whole_group);
  // Of all places, also of those that are added later.
  void SetTerminals(const WorkerTerminals& terminals);
  void HoldOutput(bool hold);
  bool OnChildEnded(pid_t pid, WorkerEnd end);
  // Ends everything elsewhere, or here; Finished says that it is done.
  void Finish(bool elsewhere);
  bool AreFinished(bool elsewhere) const;

  // This one and all others, as long as they are not forgotten.
  std::vector<Place*> all();
  bool has_others() const { return !others_.empty(); }

 private:
  const SshOptions ssh_;
  const AgentOrder order_;
  EventLoop* const loop_;
  PlaceListener* const listener_;
  LocalPlace here_;
  std::vector<std::unique_ptr<Place>> others_;
  std::map<std::string, Place*> by_host_;
  std::set<const Place*> ready_;
  std::set<const Place*> released_;
  WorkerTerminals terminals_;
  bool is_held_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PLACES_PLACES_H_
