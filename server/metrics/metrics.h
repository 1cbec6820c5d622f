#ifndef FARANDOLE_SERVER_METRICS_METRICS_H_
#define FARANDOLE_SERVER_METRICS_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/bytes/byte_ledger.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"

namespace farandole {

// One row of the table of all metrics: farandole_<subject>_<base unit>[_total].
struct MetricRow {
  enum class Kind { kCounter, kGauge, kHistogram };
  Kind kind;
  const char* name;
  // The labels it has, for people; "" for none.
  const char* labels;
  const char* help;
};

// All metrics of the coordinator.
absl::Span<const MetricRow> MetricRows();

// Most jobs that have a row of their own in farandole_job_negotiation_messages_total; the others share job="". In the
// metrics of GPUs as many jobs have a row; the others have none.
inline constexpr size_t kMaxJobRows = 1000;

// The coordinator's own counters. Any thread. Owned by the coordinator.
class Metrics {
 public:
  Metrics(absl::string_view version, absl::Time started);

  void CountReceived(const JobKey& job, const v1::WorkerMessage& message);
  void CountSent(const JobKey& job, const v1::CoordinatorMessage& message);
  void CountEpochFormed() { epochs_formed_->Increment(); }
  void CountEpochEnded() { epochs_ended_->Increment(); }
  void CountReset() { resets_->Increment(); }
  void CountStallNotice() { stall_notices_->Increment(); }
  void CountStoreError() { store_errors_->Increment(); }
  void CountMailboxRefusal() { mailbox_refusals_->Increment(); }
  void CountDeniedCall() { denied_calls_->Increment(); }
  void CountRefusedConnection() { refused_connections_->Increment(); }
  // Counts signed tokens, by the issuer's name ("" for one that is not known).
  void CountSignedToken(const std::string& issuer, const std::string& result) {
    signed_tokens_->Add({{"issuer", issuer}, {"result", result}}).Increment();
  }
  // Counts clients' certificates in place of tokens.
  void CountClientCertificate(const std::string& result) {
    client_certificates_->Add({{"result", result}}).Increment();
  }
  void CountClientAuthorities(bool is_used) {
    client_authorities_->Add({{"result", is_used ? "used" : "refused"}}).Increment();
  }
  void CountKeyFetch(const std::string& issuer, bool is_good) {
    key_fetches_->Add({{"issuer", issuer}, {"result", is_good ? "fetched" : "failed"}}).Increment();
  }
  void ShowKeys(const std::string& issuer, size_t keys) {
    issuer_keys_->Add({{"issuer", issuer}}).Set(static_cast<double>(keys));
  }
  void CountSignIn(const std::string& issuer, const std::string& result) {
    sign_ins_->Add({{"issuer", issuer}, {"result", result}}).Increment();
  }
  // The certificate that is served: valid until then; it was replaced, or a new one was refused.
  void ShowCertificateEnd(absl::Time not_after) {
    certificate_ends_->Add({}).Set(absl::ToDoubleSeconds(not_after - absl::UnixEpoch()));
  }
  void CountCertificate(bool is_served) {
    certificates_->Add({{"result", is_served ? "served" : "refused"}}).Increment();
  }
  // Spans of jobs' runs: "sent", "refused" or "dropped".
  void CountSpans(const std::string& result, size_t spans) {
    spans_->Add({{"result", result}}).Increment(static_cast<double>(spans));
  }
  void CountStreamOpened() { streams_->Increment(); }
  void CountStreamEnded() { streams_->Decrement(); }
  void ObserveStep(absl::Duration took) { step_seconds_->Observe(absl::ToDoubleSeconds(took)); }
  void ObserveCommit(absl::Duration took) { commit_seconds_->Observe(absl::ToDoubleSeconds(took)); }
  // A launch starts that has waited in the queue.
  void ObserveQueued(absl::Duration waited) { queue_seconds_->Observe(absl::ToDoubleSeconds(waited)); }
  // The job has ended: its own row may go to another job when rows run out.
  void ReleaseJob(const JobKey& job);

  // Sets the gauges, which are read off rather than counted: to be called before Text.
  void ShowJobs(const JobRegistry& registry);
  void ShowMailboxDepth(size_t events);
  void ShowStore(bool is_writable);
  void ShowBytes(const ByteLedger& ledger);
  // TLS handshakes that have failed since the start.
  void ShowHandshakes(uint64_t failed);

  // All metrics in Prometheus' text format 0.0.4.
  std::string Text() const;

 private:
  static constexpr size_t kMaxMessageTypes = 128;
  using CountersByType = std::array<prometheus::Counter*, kMaxMessageTypes>;

  // In the order of the table: how many, busy, memory used, memory.
  static constexpr size_t kGpuRows = 4;
  // Null: none.
  using GpuRow = std::array<prometheus::Gauge*, kGpuRows>;

  prometheus::Family<prometheus::Counter>& Counters(size_t row);
  prometheus::Family<prometheus::Gauge>& Gauges(size_t row);
  prometheus::Histogram* Latency(size_t row, const prometheus::Histogram::BucketBoundaries& buckets);
  void CountNegotiation(const JobKey& job);
  // Tenants that had jobs and have none any more are shown with 0.
  void ShowEmptied(std::map<std::pair<std::string, v1::JobState>, double>* jobs, std::map<std::string, double>* workers,
                   std::map<std::string, double>* queued_workers);
  void ShowGpus(const std::map<JobKey, v1::GpuUsage>& jobs);
  prometheus::Counter* AddJobRow(const JobKey& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  prometheus::Registry registry_;
  CountersByType received_ = {};
  CountersByType sent_ = {};
  prometheus::Counter* epochs_formed_;
  prometheus::Counter* epochs_ended_;
  prometheus::Counter* resets_;
  prometheus::Counter* stall_notices_;
  prometheus::Counter* store_errors_;
  prometheus::Counter* mailbox_refusals_;
  prometheus::Counter* denied_calls_;
  prometheus::Counter* refused_connections_;
  prometheus::Counter* failed_handshakes_;
  prometheus::Family<prometheus::Counter>* signed_tokens_;
  prometheus::Family<prometheus::Counter>* client_certificates_;
  prometheus::Family<prometheus::Counter>* client_authorities_;
  prometheus::Family<prometheus::Counter>* key_fetches_;
  prometheus::Family<prometheus::Gauge>* issuer_keys_;
  prometheus::Family<prometheus::Counter>* sign_ins_;
  prometheus::Family<prometheus::Gauge>* certificate_ends_;
  prometheus::Family<prometheus::Counter>* certificates_;
  prometheus::Family<prometheus::Counter>* spans_;
  prometheus::Gauge* streams_;
  prometheus::Gauge* store_writable_;
  prometheus::Gauge* mailbox_events_;
  prometheus::Histogram* queue_seconds_;
  prometheus::Histogram* step_seconds_;
  prometheus::Histogram* commit_seconds_;
  prometheus::Family<prometheus::Gauge>* jobs_;
  prometheus::Family<prometheus::Gauge>* workers_;
  prometheus::Family<prometheus::Gauge>* queued_workers_;
  prometheus::Family<prometheus::Counter>* negotiation_;
  std::array<prometheus::Family<prometheus::Gauge>*, kGpuRows> gpus_;
  prometheus::Family<prometheus::Gauge>* held_bytes_;
  prometheus::Family<prometheus::Gauge>* held_ratio_;
  prometheus::Family<prometheus::Counter>* sheds_;
  prometheus::Family<prometheus::Counter>* paced_messages_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  absl::btree_map<JobKey, prometheus::Counter*> job_rows_ ABSL_GUARDED_BY(mutex_);
  // Those of jobs that have ended.
  absl::btree_set<JobKey> released_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, v1::JobState>> shown_ ABSL_GUARDED_BY(mutex_);
  prometheus::Counter* other_jobs_;
  std::map<JobKey, GpuRow> gpu_rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_METRICS_METRICS_H_
