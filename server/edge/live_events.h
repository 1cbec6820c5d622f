#ifndef FARANDOLE_SERVER_EDGE_LIVE_EVENTS_H_
#define FARANDOLE_SERVER_EDGE_LIVE_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// Tells open pages what has changed, by server-sent events:
//   jobs   {"jobs": [...]}: jobs of /api/v1/jobs that have changed. Where something else than a number or a blocker's
//          sentence has, the whole summary; otherwise the fields that a running job changes all the time
//   look   {"tenant", "job"}: once a second for each job that the page watches and that runs: there is more to see
//   reset  {}: events were left out; what the page shows is to be asked for again
// A reader that comes back with Last-Event-ID is sent what it has missed, if that is still known. Each tenant's readers
// are told of its own jobs, and count, are reset and come back by these alone; those who see all jobs are one more
// audience. An event is written once for all readers of an audience. A reader gets 4 kB/s at most on average, and is
// cut off when 64 KiB wait for it. Owned by the coordinator; the edge's thread only.
class LiveEvents {
 public:
  static constexpr size_t kMostReaders = 320;
  // Events of each audience that are kept for its readers that come back.
  static constexpr size_t kMostKept = 128;
  // After so long without a reader, nothing is kept.
  static constexpr absl::Duration kRemembered = absl::Minutes(1);
  // Bytes of changing numbers in each tick, of which there are four a second.
  static constexpr size_t kPulseBytes = 700;
  // More jobs of an audience that change at once are a reset.
  static constexpr size_t kMostAtOnce = 8;
  static constexpr size_t kMostWatched = 16;
  // Deleted jobs are told by a reset, to each audience one at most in this time.
  static constexpr absl::Duration kBetweenDeletions = absl::Seconds(5);

  using CallerOf = std::function<HttpCaller(const HttpRequest&)>;
  // `registry` outlives it; `caller_of` says again and again whether a reader may go on; `on_news` is called with each
  // job of which something else than numbers has changed, before readers are told.
  LiveEvents(const JobRegistry* registry, CallerOf caller_of, std::function<void(const JobKey&)> on_news,
             std::function<absl::Time()> clock);

  // GET /api/v1/events[?job=TENANT/NAME&job=...][&after=ID]. Where there are too many readers, the newest of the tenant
  // that has most of them ends, or 503 where the caller's tenant would then have as many.
  HttpReply Open(const HttpRequest& request, const HttpIdentity& identity);
  // Four times a second.
  void Tick();
  size_t readers() const { return readers_.size(); }

 private:
  struct Reader {
    // Shared with its connection.
    std::shared_ptr<EventStream> stream;
    HttpRequest request;
    HttpIdentity identity;
    std::vector<JobKey> watched;
  };
  struct Event {
    uint64_t number = 0;
    std::string text;
  };
  // The events of an audience. There is one as long as the audience has readers, and kRemembered longer.
  struct Log {
    // Tells its events from those of another log.
    std::string life;
    absl::Time read_at;
    uint64_t last = 0;
    // Events up to this one are not known any more.
    uint64_t forgotten = 0;
    std::deque<Event> kept;
  };
  struct Shown {
    // Never null.
    JobRegistry::Shown summary = std::make_shared<const v1::JobSummary>();
    absl::Time pulsed = absl::InfinitePast();
  };

  // False: no owner has so many readers more than `owner` that it gives one up.
  bool MakePlaceFor(const std::string& owner);
  void DropReaders(absl::Time now);
  void TellChanges(absl::Time now);
  void TellNumbers(absl::Time now);
  void TellLooks(absl::Time now);
  void TellDeletions(absl::Time now);
  void ForgetDeleted(const std::string& tenant);
  void Publish(const std::vector<std::string>& audiences, const std::string& kind, const std::string& data);
  Log& LogOf(const std::string& audience, absl::Time now);
  static void Replay(const Log& log, const Reader& reader, const std::string& after);

  const JobRegistry* const registry_;
  const CallerOf caller_of_;
  const std::function<void(const JobKey&)> on_news_;
  const std::function<absl::Time()> clock_;
  std::vector<Reader> readers_;
  // By audience.
  std::map<std::string, Log> logs_;
  uint64_t seen_ = 0;
  // The jobs as readers know them; running ones, and others for a while.
  std::map<JobKey, Shown> shown_;
  // Jobs with other numbers than readers know.
  std::map<JobKey, JobRegistry::Shown> restless_;
  absl::Time read_at_ = absl::InfinitePast();
  absl::Time checked_ = absl::InfinitePast();
  absl::Time breathed_ = absl::InfinitePast();
  absl::Time looked_ = absl::InfinitePast();
  uint64_t seen_deletions_ = 0;
  // The audiences that are to be told of deleted jobs, and when others were told of some.
  std::set<std::string> deletions_;
  std::map<std::string, absl::Time> told_deletions_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_LIVE_EVENTS_H_
