#include "server/loop/mailbox.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"

namespace farandole {

absl::Status Mailbox::Push(JobKey job, Event event, ByteCharge charge, bool of_cluster) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return absl::UnavailableError("the coordinator is stopping; retry");
  size_t& count = count_by_job_[job];
  if (count >= capacity_per_job_ && !std::holds_alternative<StreamClosed>(event)) {
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat("job ", job.Text(), " has ", count, " events waiting, at most ",
                                                  capacity_per_job_, " may wait")),
        kRetryWhenFull);
  }
  ++count;
  ++depth_;
  waiting_.letters.push_back({std::move(job), std::move(event), std::move(charge), of_cluster});
  has_mail_.notify_one();
  return absl::OkStatus();
}

void Mailbox::Post(std::function<void()> completion) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.completions.push_back(std::move(completion));
  has_mail_.notify_one();
}

void Mailbox::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  has_mail_.notify_one();
}

Mailbox::Delivery Mailbox::Take(absl::Time deadline) {
  Delivery delivery;
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_mail = [this] { return HasMail(); };
  if (deadline == absl::InfiniteFuture()) {
    has_mail_.wait(lock, has_mail);
  } else {
    has_mail_.wait_until(lock, ToSteadyClock(deadline), has_mail);
  }
  delivery.closed = closed_;
  close_told_ = closed_;
  delivery.letters.swap(waiting_.letters);
  delivery.completions.swap(waiting_.completions);
  return delivery;
}

void Mailbox::Release(const JobKey& job, size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = count_by_job_.find(job);
  if (found == count_by_job_.end()) return;
  found->second -= count;
  depth_ -= count;
  if (found->second == 0) count_by_job_.erase(found);
}

size_t Mailbox::depth() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return depth_;
}

}  // namespace farandole
