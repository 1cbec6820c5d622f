#include "server/spans/span_exporter.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/backoff.h"
#include "base/quiet_thread.h"
#include "base/steady_time.h"
#include "base/text/plain_text.h"
#include "server/identity/https_client.h"
#include "server/spans/otlp_json.h"
#include "server/spans/retry_after.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// A request that was cancelled returns at once.
constexpr absl::Duration kCancelled = absl::Milliseconds(200);
// Of a collector's words in the log.
constexpr size_t kMostShown = 200;

bool IsRetryable(unsigned status) { return status == 429 || status == 502 || status == 503 || status == 504; }

}  // namespace

// The spans that wait, and how the collector has taken those before.
class SpanExporter::Queue {
 public:
  Queue(OtlpOptions options, const SpanQueue::Bounds& bounds, const ExportTimes& times, Metrics* metrics)
      : options_(std::move(options)),
        times_(times),
        metrics_(metrics),
        spans_(bounds),
        backoff_(times.retry, times.longest_retry) {}

  const std::string& url() const { return options_.url; }

  void Add(Span span) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_stopping_) return metrics_->CountSpans("dropped", 1);
    const absl::Time before = spans_.Due();
    CountDropped(spans_.Add(std::move(span), SteadyNow()));
    if (spans_.Due() < before) changed_.notify_all();
  }

  // The thread.
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_stopping_ || (spans_.size() > 0 && !has_failed_at_end_)) {
      const absl::Time due = std::max(spans_.Due(), retry_at_);
      if (!is_stopping_ && SteadyNow() < due) {
        WaitUntil(due, &lock);
        continue;
      }
      std::vector<Span> batch = spans_.TakeBatch();
      lock.unlock();
      const Outcome outcome = Send(batch);
      lock.lock();
      if (is_abandoned_) return;
      Settle(outcome, std::move(batch));
    }
    is_done_ = true;
    changed_.notify_all();
  }

  // False: the thread goes on, and touches nothing but this object.
  bool Stop() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
    AwaitDone(times_.farewell, &lock);
    if (!is_done_) {
      end_.Cancel();
      AwaitDone(kCancelled, &lock);
    }
    is_abandoned_ = !is_done_;
    const size_t left = spans_.size();
    metrics_->CountSpans("dropped", left);
    if (left > 0 || is_abandoned_) spdlog::warn("spans: the coordinator ends, and not all could be sent");
    return is_done_;
  }

 private:
  struct Outcome {
    enum class Kind { kSent, kRetry, kRefused };
    Kind kind = Kind::kSent;
    // The failure; "": none.
    std::string sentence;
    // The collector's own words, which may be others each time; "": none.
    std::string words;
    // Before it may be tried again.
    absl::Duration pause;
    int64_t rejected = 0;
  };

  Outcome Send(const std::vector<Span>& batch) {
    HttpsRequest request;
    request.url = options_.url;
    request.may_be_plain = true;
    request.content_type = "application/json";
    request.headers = options_.headers;
    request.ca_pem = options_.ca_pem;
    request.timeout = options_.timeout;
    request.body = ToOtlpJson(options_.resource, batch);
    request.end = &end_;
    const absl::StatusOr<HttpsReply> reply = AskByHttps(request);
    if (!reply.ok()) return {Outcome::Kind::kRetry, std::string(reply.status().message()), "", {}, 0};
    if (reply->status >= 200 && reply->status < 300) {
      PartialSuccess partial = ReadPartialSuccess(reply->body);
      return {Outcome::Kind::kSent, "", std::move(partial.message), {}, partial.rejected};
    }
    const std::string sentence = absl::StrCat("the collector answers with status ", reply->status);
    if (IsRetryable(reply->status))
      return {Outcome::Kind::kRetry, sentence, reply->body, RetryAfter(reply->retry_after, absl::Now()), 0};
    return {Outcome::Kind::kRefused, sentence, reply->body, {}, 0};
  }

  void Settle(const Outcome& outcome, std::vector<Span> batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (outcome.kind == Outcome::Kind::kRetry) {
      has_failed_at_end_ = is_stopping_;
      retry_at_ = SteadyNow() + std::max(backoff_.Next(), outcome.pause);
      Tell(absl::StrCat("cannot be sent, and wait: ", outcome.sentence), outcome.words);
      return CountDropped(spans_.PutBack(std::move(batch)));
    }
    backoff_.Reset();
    retry_at_ = absl::InfinitePast();
    const bool is_refused = outcome.kind == Outcome::Kind::kRefused;
    const size_t refused = is_refused ? batch.size() : std::min<size_t>(batch.size(), outcome.rejected);
    metrics_->CountSpans("refused", refused);
    metrics_->CountSpans("sent", batch.size() - refused);
    if (is_refused) return Tell(absl::StrCat("are refused: ", outcome.sentence), outcome.words);
    if (refused > 0 || !outcome.words.empty()) return Tell("were taken with a remark", outcome.words);
    if (!told_.empty()) spdlog::info("spans are sent again to {}", ShownUrl(options_.url));
    told_.clear();
    is_dropping_ = false;
  }

  // Once for each thing that goes wrong, with the words of that time.
  void Tell(const std::string& sentence, const std::string& words) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string said = words.empty() ? "" : absl::StrCat(": ", Plain(words, kMostShown));
    if (told_ != sentence) spdlog::warn("spans for {} {}{}", ShownUrl(options_.url), sentence, said);
    told_ = sentence;
  }

  void CountDropped(size_t dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (dropped == 0) return;
    metrics_->CountSpans("dropped", dropped);
    if (!is_dropping_) spdlog::warn("spans for {} fill their queue: the oldest are dropped", ShownUrl(options_.url));
    is_dropping_ = true;
  }

  void WaitUntil(absl::Time due, std::unique_lock<std::mutex>* lock) {
    if (due == absl::InfiniteFuture()) return changed_.wait(*lock);
    changed_.wait_until(*lock, ToSteadyClock(due));
  }

  void AwaitDone(absl::Duration most, std::unique_lock<std::mutex>* lock) {
    changed_.wait_until(*lock, ToSteadyClock(SteadyNow() + most),
                        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return is_done_; });
  }

  const OtlpOptions options_;
  const ExportTimes times_;
  // Not to be touched by the thread once it is abandoned.
  Metrics* const metrics_;
  RequestEnd end_;

  // Of the standard library, whose timed waits do not go by the wall clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  SpanQueue spans_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Time retry_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // The last thing that went wrong, if nothing has gone well since.
  std::string told_ ABSL_GUARDED_BY(mutex_);
  bool is_dropping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_failed_at_end_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

SpanExporter::SpanExporter(OtlpOptions options, const SpanQueue::Bounds& bounds, const ExportTimes& times,
                           Metrics* metrics)
    : times_(times),
      queue_(std::make_shared<Queue>(std::move(options), bounds, times, metrics)),
      thread_(QuietThread([queue = queue_] { queue->Run(); })) {
  spdlog::info("spans of jobs' runs go to {}", ShownUrl(queue_->url()));
}

SpanExporter::~SpanExporter() { Stop(); }

void SpanExporter::Add(Span span) { queue_->Add(std::move(span)); }

void SpanExporter::Stop() {
  if (!thread_.joinable()) return;
  queue_->Stop() ? thread_.join() : thread_.detach();
}

}  // namespace farandole
