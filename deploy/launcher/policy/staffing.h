#ifndef FARANDOLE_DEPLOY_LAUNCHER_POLICY_STAFFING_H_
#define FARANDOLE_DEPLOY_LAUNCHER_POLICY_STAFFING_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launcher/policy/host_list.h"

namespace farandole::launcher {

struct StaffLimits {
  // Workers to start first, and the most that run at a time.
  int first = 1;
  int most = 1;
  // The pause between the end of a worker and the next start. If all workers fail for one reason, the launch ends
  // within this pause and starts none.
  absl::Duration rest = absl::Seconds(1);
  // A host on which a process ends before it has settled rests for twice as long each time, up to `longest_rest`; so
  // does one that cannot be reached.
  absl::Duration settled = absl::Seconds(10);
  absl::Duration longest_rest = absl::Seconds(60);
  // A host is given up where workers failed by themselves so many times in a row, each soon after its start.
  int most_failed_starts = 5;
  absl::Duration early = absl::Seconds(60);
};

// Decides how many workers of an elastic launch to start where, and when. Pure: no process, no clock. `now` is the time
// since the launch's start and never goes back.
//
// A failed worker is replaced, on its own host where that has a slot. A worker that ended with code 0 was drained, or
// the program is finishing: its slot stays empty as long as the host is listed. Hosts that are not listed any more get
// no workers, and where one has fewer places than workers the youngest are to leave. The first list's workers start at
// once, so that one epoch can hold them all; later ones after a rest.
class Staffing {
 public:
  struct Start {
    std::string host;
    int count = 0;
  };

  // Workers that are to leave.
  struct Cut {
    std::string host;
    bool is_listed = false;
    std::vector<int> workers;
  };
  enum End {
    kInOrder,
    // By an exit code, or a signal that says that the program is broken.
    kFailed,
    // By another program.
    kKilled,
  };

  explicit Staffing(StaffLimits limits) : limits_(limits) {}

  // Sets the available hosts and their slots, in the order in which to fill them. Returns the hosts that are no longer
  // listed, and those that run more workers than they have slots, with the workers that must leave.
  std::vector<Cut> List(const std::vector<HostSlots>& hosts);
  // The workers to start now. Each counts as being started (starting_on) until Started, or until the host is gone.
  std::vector<Start> TakeDue(absl::Duration now);
  // One of those that are due on this host has started, as this worker.
  void Started(const std::string& host, int worker, absl::Duration now);
  // The host cannot be reached, or is lost: the workers that were due there do not start. The ends of its workers are
  // reported separately.
  void Unusable(const std::string& host, absl::Duration now);
  // True: its host is given up with this end.
  bool Ended(int worker, End end, absl::Duration now);
  // The coordinator accepts no worker from this host until then.
  void Bar(const std::string& host, absl::Duration until);
  // No worker is started any more.
  void Close();

  // When TakeDue may give more; InfiniteDuration: not before something else happens.
  absl::Duration deadline(absl::Duration now) const;
  // Workers that start as soon as their host is ready.
  int starting_on(const std::string& host) const;
  int starting() const;
  // Workers that are being started, or will be before long: those of hosts that can be used.
  int expected(absl::Duration now) const;
  bool is_listed(const std::string& host) const;
  // Of all listed hosts, at least one of which there is, none can be used.
  bool all_unusable() const { return AreAllListed(&Host::is_unusable); }
  // All listed hosts are given up.
  bool all_given_up() const { return AreAllListed(&Host::is_given_up); }

 private:
  struct Host {
    bool is_listed = false;
    bool is_unusable = false;
    bool is_given_up = false;
    // Its place in the list.
    size_t order = 0;
    int slots = 0;
    int starting = 0;
    int running = 0;
    // Slots that stay empty, because their workers ended with code 0.
    int retired = 0;
    // Failures soon after a start, in a row. A worker that was started before the last such failure does not count.
    int failed_starts = 0;
    absl::Duration last_failed_start = -absl::InfiniteDuration();
    // Ends and refusals in a row, each soon after a start.
    int hasty = 0;
    absl::Duration rests_until;
    absl::Duration barred_until;

    int free() const { return slots - starting - running - retired; }
    absl::Duration usable_from() const { return std::max(rests_until, barred_until); }
  };
  struct Worker {
    std::string host;
    absl::Duration since;
    bool is_leaving = false;
  };

  int Wanted() const;
  Host* Choose(absl::Duration now, std::string* name);
  // Marks the youngest of the host's workers that are not to leave yet.
  std::vector<int> MarkLeaving(const std::string& host, int count);
  int StayingOn(const std::string& host) const;
  // There are listed hosts, and each has the property.
  bool AreAllListed(bool Host::*property) const;
  bool NoteFailedStart(Host* host, absl::Duration since, absl::Duration now) const;
  void Rest(Host* host, absl::Duration now);
  void ForgetUnlisted();

  const StaffLimits limits_;
  std::map<std::string, Host> hosts_;
  std::map<int, Worker> workers_;
  // Hosts of failed workers that have no successor yet.
  std::deque<std::string> vacated_;
  bool has_begun_ = false;
  bool is_closed_ = false;
  absl::Duration rests_until_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_POLICY_STAFFING_H_
