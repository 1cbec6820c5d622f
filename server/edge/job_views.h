#ifndef FARANDOLE_SERVER_EDGE_JOB_VIEWS_H_
#define FARANDOLE_SERVER_EDGE_JOB_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "server/edge/call_router.h"
#include "web/http_message.h"

namespace farandole {

// A job as it was at one moment, and what was written of it for pages: for all that look at it.
class JobView {
 public:
  // The most bytes of replies that a view keeps; further replies are written each time.
  static constexpr size_t kMostBytes = 1 << 20;

  JobView(v1::GetJobResponse job, absl::Time at)
      : job_(std::move(job)), most_bytes_(kMostBytes + job_.SpaceUsedLong()), at_(at) {}

  const v1::GetJobResponse& job() const { return job_; }
  absl::Time at() const { return at_; }
  // The most bytes that it takes in memory, with all the replies that it may keep.
  size_t most_bytes() const { return most_bytes_; }

  // The reply that was kept under this name; null: none. Any thread, as Keep.
  std::shared_ptr<const HttpReply> Find(const std::string& name) const;
  void Keep(const std::string& name, const HttpReply& reply) const;

 private:
  const v1::GetJobResponse job_;
  const size_t most_bytes_;
  const absl::Time at_;
  mutable std::mutex mutex_;
  // By name.
  mutable std::map<std::string, std::shared_ptr<const HttpReply>> replies_ ABSL_GUARDED_BY(mutex_);
  mutable size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Looks at jobs for pages, at most once a second at each, for however many pages. Owned by the coordinator; any thread.
class JobViews {
 public:
  // For how long a view is taken for the present.
  static constexpr absl::Duration kFresh = absl::Milliseconds(900);
  // The most views that are kept, and the most bytes of them and their replies; the oldest make room.
  static constexpr size_t kMostKept = 64;
  static constexpr size_t kMostKeptBytes = 128 << 20;
  // One that nobody asks for any more goes after so long.
  static constexpr absl::Duration kKept = absl::Seconds(10);

  // Both outlive it; `clock` gives the time.
  JobViews(CallRouter* router, std::function<absl::Time()> clock) : router_(router), clock_(std::move(clock)) {}

  using Use = std::function<void(const absl::Status&, std::shared_ptr<const JobView>)>;
  // `use` is called once with a fresh view, at once or later, from any thread; or with why there is none.
  // `history`: the view has this alone. Where the job itself is asked, `viewer` pays for the answer.
  void Ask(const Access& viewer, const JobKey& key, std::optional<HistoryAsked> history, Use use);
  // The job has changed: what is known of it, and what was asked for before, is no answer to later questions.
  void Expire(const JobKey& key);

 private:
  // The job, and the history's name; "": there is none.
  using ViewKey = std::pair<JobKey, std::string>;
  // A question to the job, and those that wait for its answer.
  struct Question {
    std::vector<Use> waiting;
  };
  struct Entry {
    // shared: by the replies that are under way.
    std::shared_ptr<const JobView> view;
    // The one that new ones may join; null: none. shared: by the job's answer.
    std::shared_ptr<Question> open;
  };

  void Take(const Access& viewer, const ViewKey& place, const std::shared_ptr<Question>& question,
            const absl::Status& status, ReplyMessage message);
  // Drops views that are old or, the oldest first, too many.
  void DropOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CallRouter* const router_;
  const std::function<absl::Time()> clock_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  std::map<ViewKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_JOB_VIEWS_H_
