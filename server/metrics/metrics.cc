#include "server/metrics/metrics.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/job_state.h"
#include "prometheus/text_serializer.h"

namespace farandole {
namespace {

enum Row : size_t {
  kJobs,
  kWorkers,
  kQueuedWorkers,
  kQueueSeconds,
  kJobGpus,
  kJobGpuBusy,
  kJobGpuMemoryUsed,
  kJobGpuMemory,
  kStreams,
  kMessagesReceived,
  kMessagesSent,
  kNegotiationMessages,
  kEpochsFormed,
  kEpochsEnded,
  kResets,
  kStallNotices,
  kStoreErrors,
  kStoreWritable,
  kCommitSeconds,
  kStepSeconds,
  kMailboxEvents,
  kMailboxRefusals,
  kHeldBytes,
  kHeldRatio,
  kSheds,
  kPacedMessages,
  kDeniedCalls,
  kRefusedConnections,
  kFailedHandshakes,
  kSignedTokens,
  kClientCertificates,
  kClientAuthorities,
  kKeyFetches,
  kIssuerKeys,
  kSignIns,
  kCertificateEnd,
  kCertificates,
  kSpans,
  kStartTime,
  kBuild,
  kRowCount,
};

// Of a job's rows about GPUs.
constexpr size_t kBusyRow = 1;

constexpr MetricRow::Kind kCounter = MetricRow::Kind::kCounter;
constexpr MetricRow::Kind kGauge = MetricRow::Kind::kGauge;
constexpr MetricRow::Kind kHistogram = MetricRow::Kind::kHistogram;

constexpr MetricRow kRows[] = {
    {kGauge, "farandole_jobs", "tenant, state", "Jobs that the coordinator keeps, by state."},
    {kGauge, "farandole_workers", "tenant", "Workers in running epochs."},
    {kGauge, "farandole_queued_workers", "tenant", "Workers that the launches in the queue want."},
    {kHistogram, "farandole_queue_seconds", "", "How long launches that have started were in the queue before."},
    {kGauge, "farandole_job_gpus", "tenant, job", "GPUs of the job's running epoch, of those that tell of themselves."},
    {kGauge, "farandole_job_gpu_busy_ratio", "tenant, job",
     "How much of the time something ran on the job's GPUs, 0 to 1: their mean."},
    {kGauge, "farandole_job_gpu_memory_used_bytes", "tenant, job", "Used memory of the job's GPUs together."},
    {kGauge, "farandole_job_gpu_memory_bytes", "tenant, job", "Memory of the job's GPUs together."},
    {kGauge, "farandole_streams", "", "Workers' streams that are open."},
    {kCounter, "farandole_messages_received_total", "type", "Messages that came on workers' streams."},
    {kCounter, "farandole_messages_sent_total", "type", "Messages that were sent on workers' streams."},
    {kCounter, "farandole_job_negotiation_messages_total", "tenant, job",
     "Messages about tensors, received and sent; constant in the steady state. Beyond 1,000 jobs the others share "
     "job=\"\"."},
    {kCounter, "farandole_epochs_formed_total", "", "Epochs that were formed."},
    {kCounter, "farandole_epochs_ended_total", "", "Epochs that ended."},
    {kCounter, "farandole_resets_total", "", "Epochs of elastic jobs that ended by a loss, and whose jobs went on."},
    {kCounter, "farandole_stall_notices_total", "", "Messages that name the ranks of a stall."},
    {kCounter, "farandole_store_errors_total", "", "Calls to the store that failed."},
    {kGauge, "farandole_store_writable", "", "1 while the store can be written, otherwise 0."},
    {kHistogram, "farandole_commit_seconds", "", "From a commit's call to its durability."},
    {kHistogram, "farandole_step_seconds", "", "Time that one decision about a job takes."},
    {kGauge, "farandole_mailbox_events", "", "Events that wait for their decision."},
    {kCounter, "farandole_mailbox_refusals_total", "", "Events refused because a job's mailbox was full."},
    {kGauge, "farandole_held_bytes", "tenant, kind",
     "Bytes in memory on behalf of a tenant, of those that its limits count; tenant=\"\": of all tenants together."},
    {kGauge, "farandole_held_ratio", "tenant, pool",
     "How much of its limit a tenant has: of messages on their way to its jobs (queued) and to its workers (outgoing), "
     "of answers that clients have not read (answers), of messages that wait for room (paused), of large messages of "
     "calls (requests), of what its jobs keep (kept), and of their catalogues of checkpoints (catalogues); "
     "tenant=\"\": all tenants together. Observers are "
     "refused above 0.5, those who join above 0.75."},
    {kCounter, "farandole_sheds_total", "tenant, kind",
     "What was refused, left out or ended because a tenant had no room: messages that had to wait and calls (events), "
     "streams of workers that do not read (outgoing) or that send too much (paused), answers where others are not read "
     "(answers), calls with large messages (requests), and what jobs would have kept."},
    {kCounter, "farandole_paced_messages_total", "tenant",
     "Messages after which a stream waited because its tenant sends faster than it may (`--tenant-mib-per-s`)."},
    {kCounter, "farandole_denied_calls_total", "",
     "Calls without a valid token or certificate, or without the right to what they ask, and messages that cannot be "
     "read, or are larger than they may be."},
    {kCounter, "farandole_refused_connections_total", "",
     "Connections that were closed: without a token for too long, or beyond the number that may be."},
    {kCounter, "farandole_failed_handshakes_total", "", "TLS handshakes on the port of gRPC that have failed."},
    {kCounter, "farandole_signed_tokens_total", "issuer, result",
     "Signed tokens that were examined: accepted, or why not; a token that was found good is not examined again."},
    {kCounter, "farandole_client_certificates_total", "result",
     "Clients' certificates that were examined in place of a token: accepted, or what was wrong with them (name, "
     "tenant, expired); one that was found good is not examined again."},
    {kCounter, "farandole_client_authorities_total", "result",
     "New contents of --client-ca: used, or refused and the ones before kept."},
    {kCounter, "farandole_issuer_fetches_total", "issuer, result", "Requests for an issuer's keys: fetched or failed."},
    {kGauge, "farandole_issuer_keys", "issuer", "Keys of an issuer that are known."},
    {kCounter, "farandole_sign_ins_total", "issuer, result", "Sign-ins on the dashboard with an issuer, by their end."},
    {kGauge, "farandole_tls_certificate_end_seconds", "",
     "When the certificate that is served expires, since 1970-01-01 UTC; none without --tls-cert."},
    {kCounter, "farandole_tls_certificates_total", "result",
     "New contents of --tls-cert and --tls-key: served, or refused and the ones before kept."},
    {kCounter, "farandole_spans_total", "result",
     "Spans of jobs' runs: sent to the collector of --otlp-endpoint, refused by it, or dropped because it did not take "
     "them in time; none without it."},
    {kGauge, "farandole_start_time_seconds", "", "When the coordinator started, since 1970-01-01 UTC."},
    {kGauge, "farandole_build_info", "version", "1; the label tells the version."},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == kRowCount, "one row for each metric");

// A Step takes microseconds, a commit to a disk a few milliseconds; above 10 s both are outages.
const prometheus::Histogram::BucketBoundaries kLatencySeconds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                                                 3e-2, 1e-1, 3e-1, 1,    3,    10};

// From seconds to days.
const prometheus::Histogram::BucketBoundaries kWaitSeconds = {1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 72 * 3600};

bool IsNegotiation(const v1::WorkerMessage& message) {
  return message.has_ready() || message.has_group_request() || message.has_slot_retired();
}

bool IsNegotiation(const v1::CoordinatorMessage& message) {
  return message.has_slot_assigned() || message.has_mismatch() || message.has_group_assigned();
}

// One counter for each type of message that `Message` can carry, by field number.
template <typename Message, typename Counters>
void AddTypes(prometheus::Family<prometheus::Counter>& family, Counters* counters) {
  const google::protobuf::OneofDescriptor* types = Message::descriptor()->oneof_decl(0);
  for (int i = 0; i < types->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = types->field(i);
    counters->at(static_cast<size_t>(field->number())) = &family.Add({{"type", field->name()}});
  }
}

}  // namespace

absl::Span<const MetricRow> MetricRows() { return kRows; }

Metrics::Metrics(absl::string_view version, absl::Time started)
    : epochs_formed_(&Counters(kEpochsFormed).Add({})),
      epochs_ended_(&Counters(kEpochsEnded).Add({})),
      resets_(&Counters(kResets).Add({})),
      stall_notices_(&Counters(kStallNotices).Add({})),
      store_errors_(&Counters(kStoreErrors).Add({})),
      mailbox_refusals_(&Counters(kMailboxRefusals).Add({})),
      denied_calls_(&Counters(kDeniedCalls).Add({})),
      refused_connections_(&Counters(kRefusedConnections).Add({})),
      failed_handshakes_(&Counters(kFailedHandshakes).Add({})),
      signed_tokens_(&Counters(kSignedTokens)),
      client_certificates_(&Counters(kClientCertificates)),
      client_authorities_(&Counters(kClientAuthorities)),
      key_fetches_(&Counters(kKeyFetches)),
      issuer_keys_(&Gauges(kIssuerKeys)),
      sign_ins_(&Counters(kSignIns)),
      certificate_ends_(&Gauges(kCertificateEnd)),
      certificates_(&Counters(kCertificates)),
      spans_(&Counters(kSpans)),
      streams_(&Gauges(kStreams).Add({})),
      store_writable_(&Gauges(kStoreWritable).Add({})),
      mailbox_events_(&Gauges(kMailboxEvents).Add({})),
      queue_seconds_(Latency(kQueueSeconds, kWaitSeconds)),
      step_seconds_(Latency(kStepSeconds, kLatencySeconds)),
      commit_seconds_(Latency(kCommitSeconds, kLatencySeconds)),
      jobs_(&Gauges(kJobs)),
      workers_(&Gauges(kWorkers)),
      queued_workers_(&Gauges(kQueuedWorkers)),
      negotiation_(&Counters(kNegotiationMessages)),
      gpus_{&Gauges(kJobGpus), &Gauges(kJobGpuBusy), &Gauges(kJobGpuMemoryUsed), &Gauges(kJobGpuMemory)},
      held_bytes_(&Gauges(kHeldBytes)),
      held_ratio_(&Gauges(kHeldRatio)),
      sheds_(&Counters(kSheds)),
      paced_messages_(&Counters(kPacedMessages)),
      other_jobs_(&negotiation_->Add({{"tenant", ""}, {"job", ""}})) {
  AddTypes<v1::WorkerMessage>(Counters(kMessagesReceived), &received_);
  AddTypes<v1::CoordinatorMessage>(Counters(kMessagesSent), &sent_);
  Gauges(kStartTime).Add({}).Set(absl::ToDoubleSeconds(started - absl::UnixEpoch()));
  Gauges(kBuild).Add({{"version", std::string(version)}}).Set(1);
}

prometheus::Family<prometheus::Counter>& Metrics::Counters(size_t row) {
  return prometheus::BuildCounter().Name(kRows[row].name).Help(kRows[row].help).Register(registry_);
}

prometheus::Family<prometheus::Gauge>& Metrics::Gauges(size_t row) {
  return prometheus::BuildGauge().Name(kRows[row].name).Help(kRows[row].help).Register(registry_);
}

prometheus::Histogram* Metrics::Latency(size_t row, const prometheus::Histogram::BucketBoundaries& buckets) {
  return &prometheus::BuildHistogram().Name(kRows[row].name).Help(kRows[row].help).Register(registry_).Add({}, buckets);
}

void Metrics::CountReceived(const JobKey& job, const v1::WorkerMessage& message) {
  if (prometheus::Counter* counter = received_.at(message.message_case())) counter->Increment();
  if (IsNegotiation(message)) CountNegotiation(job);
}

void Metrics::CountSent(const JobKey& job, const v1::CoordinatorMessage& message) {
  if (prometheus::Counter* counter = sent_.at(message.message_case())) counter->Increment();
  if (IsNegotiation(message)) CountNegotiation(job);
}

void Metrics::CountNegotiation(const JobKey& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = job_rows_.find(job);
  if (found == job_rows_.end()) {
    AddJobRow(job)->Increment();
    return;
  }
  released_.erase(job);
  found->second->Increment();
}

prometheus::Counter* Metrics::AddJobRow(const JobKey& job) {
  if (job_rows_.size() >= kMaxJobRows) {
    if (released_.empty()) return other_jobs_;
    const auto free = job_rows_.find(*released_.begin());
    negotiation_->Remove(free->second);
    job_rows_.erase(free);
    released_.erase(released_.begin());
  }
  prometheus::Counter* counter = &negotiation_->Add({{"tenant", job.tenant}, {"job", job.job}});
  job_rows_[job] = counter;
  return counter;
}

void Metrics::ReleaseJob(const JobKey& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (job_rows_.contains(job)) released_.insert(job);
}

void Metrics::ShowJobs(const JobRegistry& registry) {
  std::map<std::pair<std::string, v1::JobState>, double> jobs;
  std::map<std::string, double> workers;
  std::map<std::string, double> queued_workers;
  std::map<JobKey, v1::GpuUsage> gpus;
  for (const JobRegistry::Shown& shown : registry.Show()) {
    const v1::JobSummary& summary = *shown;
    // All states are written for a tenant, so that a count that became 0 is shown as 0.
    for (const v1::JobState state : {v1::JOB_STATE_QUEUED, v1::JOB_STATE_FORMING, v1::JOB_STATE_RUNNING,
                                     v1::JOB_STATE_FINISHED, v1::JOB_STATE_FAILED}) {
      jobs[{summary.tenant(), state}] += summary.state() == state ? 1 : 0;
    }
    workers[summary.tenant()] += summary.state() == v1::JOB_STATE_RUNNING ? summary.size() : 0;
    queued_workers[summary.tenant()] += summary.state() == v1::JOB_STATE_QUEUED ? summary.wanted_size() : 0;
    if (summary.has_gpus() && gpus.size() < kMaxJobRows) gpus[{summary.tenant(), summary.job()}] = summary.gpus();
  }
  ShowEmptied(&jobs, &workers, &queued_workers);
  for (const auto& [key, count] : jobs)
    jobs_->Add({{"tenant", key.first}, {"state", StateName(key.second)}}).Set(count);
  for (const auto& [tenant, count] : workers) workers_->Add({{"tenant", tenant}}).Set(count);
  for (const auto& [tenant, count] : queued_workers) queued_workers_->Add({{"tenant", tenant}}).Set(count);
  ShowGpus(gpus);
}

void Metrics::ShowEmptied(std::map<std::pair<std::string, v1::JobState>, double>* jobs,
                          std::map<std::string, double>* workers, std::map<std::string, double>* queued_workers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, count] : *jobs) shown_.insert(key);
  for (const auto& key : shown_) {
    jobs->emplace(key, 0);
    workers->emplace(key.first, 0);
    queued_workers->emplace(key.first, 0);
  }
}

void Metrics::ShowGpus(const std::map<JobKey, v1::GpuUsage>& jobs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto row = gpu_rows_.begin(); row != gpu_rows_.end();) {
    if (jobs.count(row->first) > 0) {
      ++row;
      continue;
    }
    for (size_t i = 0; i < kGpuRows; ++i) {
      if (row->second[i] != nullptr) gpus_[i]->Remove(row->second[i]);
    }
    row = gpu_rows_.erase(row);
  }
  for (const auto& [job, usage] : jobs) {
    GpuRow& row = gpu_rows_[job];
    const double values[kGpuRows] = {static_cast<double>(usage.gpus()), usage.busy_percent() / 100,
                                     static_cast<double>(usage.memory_used_bytes()),
                                     static_cast<double>(usage.memory_total_bytes())};
    for (size_t i = 0; i < kGpuRows; ++i) {
      // Of those that do not tell it is not known how busy they are.
      if (i == kBusyRow && usage.telling_gpus() == 0) {
        if (row[i] != nullptr) gpus_[i]->Remove(std::exchange(row[i], nullptr));
        continue;
      }
      row[i] = &gpus_[i]->Add({{"tenant", job.tenant}, {"job", job.job}});
      row[i]->Set(values[i]);
    }
  }
}

void Metrics::ShowBytes(const ByteLedger& ledger) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto show = [this](const std::string& tenant, const ByteAccount& account) {
    for (size_t i = 0; i < kByteKinds; ++i) {
      const auto kind = static_cast<ByteKind>(i);
      const prometheus::Labels labels = {{"tenant", tenant}, {"kind", NameOf(kind)}};
      held_bytes_->Add(labels).Set(static_cast<double>(account.held(kind)));
      prometheus::Counter& sheds = sheds_->Add(labels);
      sheds.Increment(static_cast<double>(account.sheds(kind)) - sheds.Value());
    }
    for (const auto& [pool, name] : {std::pair(BytePool::kQueued, "queued"), std::pair(BytePool::kOutgoing, "outgoing"),
                                     std::pair(BytePool::kAnswers, "answers"), std::pair(BytePool::kPaused, "paused"),
                                     std::pair(BytePool::kRequests, "requests"), std::pair(BytePool::kKept, "kept"),
                                     std::pair(BytePool::kCatalogues, "catalogues")}) {
      held_ratio_->Add({{"tenant", tenant}, {"pool", name}})
          .Set(static_cast<double>(account.held(pool)) / static_cast<double>(account.limit(pool)));
    }
  };
  show("", ledger.process());
  ledger.ForEachTenant(show);
  ledger.ForEachPace([this](const std::string& tenant, const Pace& pace) {
    prometheus::Counter& paced = paced_messages_->Add({{"tenant", tenant}});
    paced.Increment(static_cast<double>(pace.waits()) - paced.Value());
  });
}

void Metrics::ShowHandshakes(uint64_t failed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_handshakes_->Increment(static_cast<double>(failed) - failed_handshakes_->Value());
}
void Metrics::ShowStore(bool is_writable) { store_writable_->Set(is_writable ? 1 : 0); }
void Metrics::ShowMailboxDepth(size_t events) { mailbox_events_->Set(static_cast<double>(events)); }

std::string Metrics::Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

}  // namespace farandole
