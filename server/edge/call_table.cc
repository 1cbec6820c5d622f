#include "server/edge/call_table.h"

#include <utility>

namespace farandole {

CallId CallTable::Add(Finish finish) {
  absl::MutexLock lock(&mutex_);
  waiting_.emplace(++last_, std::move(finish));
  return last_;
}

void CallTable::Answer(Reply reply) {
  Finish finish;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = waiting_.find(reply.call);
    if (found == waiting_.end()) return;
    finish = std::move(found->second);
    waiting_.erase(found);
  }
  finish(reply.status, std::move(reply.message));
}

void CallTable::AnswerAll(const absl::Status& status) {
  absl::flat_hash_map<CallId, Finish> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& [call, finish] : waiting) finish(status, {});
}

}  // namespace farandole
