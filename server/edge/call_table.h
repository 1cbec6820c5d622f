#ifndef FARANDOLE_SERVER_EDGE_CALL_TABLE_H_
#define FARANDOLE_SERVER_EDGE_CALL_TABLE_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/job/rules/actions.h"

namespace farandole {

// Calls that wait for their job's answer. Owned by the output router; any thread.
class CallTable {
 public:
  using Finish = std::function<void(const absl::Status&, ReplyMessage)>;

  // `finish` is called exactly once.
  CallId Add(Finish finish);
  // Answers a call; nothing happens for one that was answered already.
  void Answer(Reply reply);
  // Answers all that wait.
  void AnswerAll(const absl::Status& status);

 private:
  absl::Mutex mutex_;
  CallId last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<CallId, Finish> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALL_TABLE_H_
