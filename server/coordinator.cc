#include "server/coordinator.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/steady_time.h"
#include "base/version.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/tenant_registrar.h"
#include "server/admin/token_mint.h"
#include "server/admin/token_registrar.h"
#include "server/audit/audit_log.h"
#include "server/bytes/byte_ledger.h"
#include "server/edge/access/access_service.h"
#include "server/edge/access/token_watch.h"
#include "server/edge/admin_service.h"
#include "server/edge/call_router.h"
#include "server/edge/grpc_server.h"
#include "server/edge/job_views.h"
#include "server/edge/libraries/library_log.h"
#include "server/edge/live_events.h"
#include "server/edge/monitor_service.h"
#include "server/edge/output_router.h"
#include "server/edge/routes/monitor_routes.h"
#include "server/edge/sweeper.h"
#include "server/edge/worker_service.h"
#include "server/identity/client_certificates.h"
#include "server/identity/identity_config.h"
#include "server/identity/sign_in_flow.h"
#include "server/identity/signed_tokens.h"
#include "server/loop/job_loops.h"
#include "server/loop/job_rows.h"
#include "server/metrics/metrics.h"
#include "server/port_options.h"
#include "server/queue/launch_queue.h"
#include "server/queue/quota_gate.h"
#include "server/registry/job_registry.h"
#include "server/registry/rights.h"
#include "server/registry/tenants.h"
#include "server/state_directory.h"
#include "server/store/memory_store.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"
#include "server/store_schema.h"
#include "server/tls/client_authorities.h"
#include "server/tls/memory_file.h"
#include "server/tls/served_certificate.h"
#include "spdlog/spdlog.h"
#include "web/http_edge.h"
#include "web/sign_in.h"
#include "web/status_site.h"

namespace farandole {
namespace {

constexpr size_t kMaxJobLoops = 64;
// Clients get this long to read how their calls ended.
constexpr absl::Duration kFarewell = absl::Seconds(1);

}  // namespace

// In the order in which they depend on each other: each is built from those above it, and destroyed before them.
class Coordinator::Parts {
 public:
  explicit Parts(CoordinatorOptions options) : options_(WithHttp(std::move(options))) {}
  // A start that failed half-way has a queue that calls the router.
  ~Parts() {
    if (queue_ != nullptr) queue_->Stop();
  }

  absl::Status Start() {
    if (options_.job_loops < 1 || options_.job_loops > kMaxJobLoops) {
      return absl::InvalidArgumentError(
          absl::StrCat("--job-loops ", options_.job_loops, " is not 1 to ", kMaxJobLoops));
    }
    absl::StatusOr<GrpcServerOptions> grpc_options = CheckGrpcOptions(options_);
    if (!grpc_options.ok()) return grpc_options.status();
    absl::StatusOr<std::optional<HttpEdgeOptions>> http_options = CheckHttpOptions(options_);
    if (!http_options.ok()) return http_options.status();
    if (absl::Status status = ReadIdentity(); !status.ok()) return status;
    if (absl::Status status = LoadCertificate(&*grpc_options, &*http_options); !status.ok()) return status;
    if (absl::Status status = LoadClientAuthorities(&*grpc_options); !status.ok()) return status;
    for (const auto step : {&Parts::OpenState, &Parts::OpenRegistry, &Parts::MakeQueue, &Parts::StartLoops}) {
      if (absl::Status status = (this->*step)(); !status.ok()) return status;
    }
    if (absl::Status status = OpenPort(*grpc_options); !status.ok()) return status;
    if (http_options->has_value()) {
      if (absl::Status status = OpenHttp(**http_options); !status.ok()) return status;
    }
    if (certificate_ != nullptr) WatchCertificate();
    if (authorities_ != nullptr) WatchClientAuthorities();
    return directory_.has_value() ? directory_->WriteAddress(address()) : absl::OkStatus();
  }

  void Drain(absl::Duration grace) {
    {
      absl::MutexLock lock(&stop_mutex_);
      if (server_ == nullptr || stopped_) return;
      server_->SetServing(false);
      router_->StartDraining();
      queue_->Pause();
      serving_ = false;
    }
    output_router_.streams().WaitUntilEmpty(SteadyNow() + grace);
    absl::MutexLock lock(&stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    Stop();
  }

  std::string address() const {
    if (options_.advertised_host.empty()) return WithPort(options_.listen, server_->port());
    return absl::StrCat(options_.advertised_host, ":", server_->port());
  }
  std::string http_address() const {
    return http_ == nullptr ? "" : WithPort(has_https() ? options_.https : options_.http, http_->port());
  }
  bool has_https() const { return !options_.https.empty(); }
  const std::vector<std::string>& http_routes() const { return http_routes_; }
  std::string token() const {
    absl::MutexLock lock(&token_mutex_);
    return token_;
  }
  std::string token_file() const { return directory_.has_value() ? directory_->token_path() : ""; }

 private:
  // "auto" is any free port of loopback.
  static CoordinatorOptions WithHttp(CoordinatorOptions options) {
    if (options.http == "auto") options.http = "127.0.0.1:0";
    return options;
  }

  static std::string WithPort(const std::string& listen, int port) {
    return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
  }

  absl::Status ReadIdentity() {
    if (options_.identity_file.empty()) return absl::OkStatus();
    absl::StatusOr<std::vector<IssuerConfig>> issuers = ReadIdentityConfig(options_.identity_file);
    if (!issuers.ok()) return absl::InvalidArgumentError(absl::StrCat("--identity-file: ", issuers.status().message()));
    issuers_ = *std::move(issuers);
    return absl::OkStatus();
  }

  // The certificate of both ports.
  absl::Status LoadCertificate(GrpcServerOptions* grpc_options, std::optional<HttpEdgeOptions>* http_options) {
    Certificate pair = {options_.tls_cert_pem, options_.tls_key_pem};
    std::vector<std::string> names;
    if (!options_.tls_cert.empty()) {
      absl::StatusOr<std::unique_ptr<ServedCertificate>> loaded =
          ServedCertificate::Load(options_.tls_cert, options_.tls_key);
      if (!loaded.ok()) return loaded.status();
      certificate_ = *std::move(loaded);
      pair = certificate_->pair();
      names = certificate_->facts().dns_names;
      metrics_.ShowCertificateEnd(certificate_->facts().not_after);
      absl::StatusOr<std::unique_ptr<MemoryFile>> file = MemoryFile::Make(FileContent(pair));
      if (!file.ok()) return file.status();
      tls_file_ = *std::move(file);
      grpc_options->tls_file = tls_file_->path();
    }
    if (!http_options->has_value() || !has_https()) return absl::OkStatus();
    (*http_options)->certificate = std::move(pair);
    (*http_options)->certificate_names = std::move(names);
    return absl::OkStatus();
  }

  // Those of clients' certificates.
  absl::Status LoadClientAuthorities(GrpcServerOptions* grpc_options) {
    if (options_.client_ca.empty()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<ClientAuthorities>> loaded = ClientAuthorities::Load(options_.client_ca);
    if (!loaded.ok()) return loaded.status();
    authorities_ = *std::move(loaded);
    absl::StatusOr<std::unique_ptr<MemoryFile>> file = MemoryFile::Make(authorities_->pem());
    if (!file.ok()) return file.status();
    authorities_file_ = *std::move(file);
    grpc_options->client_authorities_file = authorities_file_->path();
    certificates_ =
        std::make_unique<ClientCertificates>(options_.trust_domain, &tenants_, &metrics_, [] { return absl::Now(); });
    tenants_.SetCertificates([this](absl::string_view pem) { return certificates_->Authenticate(pem); });
    return absl::OkStatus();
  }

  void WatchClientAuthorities() {
    authorities_->Watch({[this](const std::string& pem) {
                           if (absl::Status status = authorities_file_->Replace(pem); !status.ok()) return status;
                           metrics_.CountClientAuthorities(/*is_used=*/true);
                           return absl::OkStatus();
                         },
                         [this] { metrics_.CountClientAuthorities(/*is_used=*/false); }});
  }

  static std::string FileContent(const Certificate& pair) {
    return absl::StrCat(pair.key_pem, "\n", pair.certificate_pem);
  }

  void WatchCertificate() {
    certificate_->Watch({[this](const Certificate& pair, const CertificateFacts& facts) {
                           if (http_ != nullptr && has_https()) {
                             if (absl::Status status = http_->SetCertificate(pair); !status.ok()) return status;
                           }
                           if (absl::Status status = tls_file_->Replace(FileContent(pair)); !status.ok()) return status;
                           metrics_.ShowCertificateEnd(facts.not_after);
                           metrics_.CountCertificate(/*is_served=*/true);
                           return absl::OkStatus();
                         },
                         [this] { metrics_.CountCertificate(/*is_served=*/false); }});
  }

  absl::Status OpenState() {
    if (options_.state_dir.empty()) {
      store_ = MakeMemoryStore();
      token_ = NewToken();
      key_ = SecureRandomBytes(32);
      audit_ = AuditLog::Open("").value();
      return absl::OkStatus();
    }
    absl::StatusOr<StateDirectory> directory = StateDirectory::Open(options_.state_dir);
    if (!directory.ok()) return directory.status();
    // The database's lock comes first: whoever holds it may touch the other files.
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksdbStore(directory->store_path());
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    if (absl::Status status = UpdateSchema(store_.get(), directory->store_path()); !status.ok()) return status;
    absl::StatusOr<std::string> token = directory->EnsureToken();
    if (!token.ok()) return token.status();
    absl::StatusOr<std::string> key = directory->EnsureKey();
    if (!key.ok()) return key.status();
    if (absl::Status synced = directory->Sync(); !synced.ok()) return synced;
    token_ = *std::move(token);
    absl::StatusOr<std::unique_ptr<AuditLog>> audit =
        AuditLog::Open(absl::StrCat(directory->path(), "/", kAuditFolder));
    if (!audit.ok()) return audit.status();
    audit_ = *std::move(audit);
    key_ = *std::move(key);
    directory_ = *std::move(directory);
    return absl::OkStatus();
  }

  absl::Status OpenRegistry() {
    if (absl::Status status = TenantRegistrar::Load(store_.get(), &tenants_); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<AnswerLedger>> ledger = AnswerLedger::Load(store_.get());
    if (!ledger.ok()) return ledger.status();
    ledger_ = *std::move(ledger);
    if (absl::Status status = TokenRegistrar::Load(store_.get(), &tenants_); !status.ok()) return status;
    mint_ = std::make_unique<TokenMint>(HmacSha256(key_, "tokens"));
    tenants_.SetRunKey(HmacSha256(key_, "credentials of runs"));
    registrar_ = std::make_unique<TenantRegistrar>(ledger_.get(), &tenants_, mint_.get());
    if (absl::Status status = registrar_->EnsureDefaultTenant(); !status.ok()) return status;
    tokens_ = std::make_unique<TokenRegistrar>(ledger_.get(), &tenants_, mint_.get(),
                                               [this](const std::string& token) { return KeepStartToken(token); });
    if (absl::Status status = tokens_->EnsureStartToken(token()); !status.ok()) return status;
    if (!issuers_.empty()) {
      signed_ = std::make_unique<SignedTokens>(issuers_, &tenants_, &metrics_, [] { return absl::Now(); });
      tenants_.SetSignedTokens([this](absl::string_view token) { return signed_->Authenticate(token); });
    }
    const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store_.get(), "summary/");
    return rows.ok() ? jobs_.Load(*rows) : rows.status();
  }

  // Before there are threads that tell it of room. It gives no launch to a job until it is loaded.
  absl::Status MakeQueue() {
    LaunchQueue::Dependencies dependencies{store_.get(), &tenants_, &jobs_, &gate_, &metrics_, {}};
    dependencies.claim = [this](const JobKey& key, const v1::CreateJobRequest& request, LaunchQueue::Finish finish) {
      router_->Push(
          key,
          [&](CallId call) {
            return JobClaimed{call, request};
          },
          std::move(finish));
    };
    queue_ = std::make_unique<LaunchQueue>(std::move(dependencies), options_.queue);
    jobs_.SetRoomListener([this] { queue_->Look(); });
    return absl::OkStatus();
  }

  absl::Status StartLoops() {
    JobLoopOptions loop_options;
    loop_options.job = options_.job;
    loop_options.random_bytes = &SecureRandomBytes;
    loop_options.job.traces_runs = !options_.spans.url.empty();
    if (loop_options.job.traces_runs) output_router_.ExportSpans(options_.spans, &metrics_);
    loop_options.job.logged = std::make_shared<TenantBudgets>(options_.job.logged->bytes(), &bytes_);
    loops_ = std::make_unique<JobLoops>(
        options_.job_loops, loop_options,
        JobLoopDependencies{store_.get(), &output_router_, &metrics_, &jobs_, &tenants_, &gate_, &bytes_});
    loops_->Restore(jobs_.ActiveKeys());
    const absl::StatusOr<std::vector<StoreRow>> purges = ScanAndWait(store_.get(), "purge/");
    if (!purges.ok()) return purges.status();
    for (const StoreRow& row : *purges) {
      if (const std::optional<JobKey> job = JobOfRow(row.key); job.has_value()) loops_->Purge(*job);
    }
    return absl::OkStatus();
  }

  absl::Status OpenPort(const GrpcServerOptions& grpc_options) {
    auto server = GrpcServer::Open(grpc_options, &tenants_, &metrics_, audit_.get());
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    router_ = std::make_unique<CallRouter>(&tenants_, server_->listener(), loops_.get(), &output_router_, &metrics_,
                                           audit_.get(), options_.stream_queue_limit, grpc_options.buffer_bytes,
                                           server_->begun_messages());
    router_->SetBytes(&bytes_);
    router_->SetQueue(queue_.get());
    if (absl::Status status = queue_->Load(); !status.ok()) return status;
    worker_service_ = std::make_unique<WorkerService>(router_.get());
    monitor_service_ = std::make_unique<MonitorService>(router_.get(), &jobs_, store_.get());
    admin_service_ = std::make_unique<AdminService>(router_.get(), ledger_.get(), registrar_.get(), &jobs_);
    access_service_ = std::make_unique<AccessService>(router_.get(), tokens_.get(), &jobs_);
    watch_ = std::make_unique<TokenWatch>(&output_router_, &tenants_.tokens(), ledger_.get());
    const absl::Status started =
        server_->Start({worker_service_.get(), monitor_service_.get(), admin_service_.get(), access_service_.get()});
    if (!started.ok()) return started;
    sweeper_ = std::make_unique<Sweeper>(router_.get(), &jobs_, Sweeper::Rows{store_.get(), ledger_.get(), &tenants_},
                                         options_.retention, options_.sweep_interval);
    server_->SetServing(true);
    serving_ = true;
    return absl::OkStatus();
  }

  absl::Status OpenHttp(const HttpEdgeOptions& edge_options) {
    HttpSite site = MakeStatusSite(&sign_in_);
    views_ = std::make_unique<JobViews>(router_.get(), [] { return absl::Now(); });
    events_ = std::make_unique<LiveEvents>(
        &jobs_, [this](const HttpRequest& request) { return sign_in_.CallerOf(request); },
        [this](const JobKey& key) { views_->Expire(key); }, [] { return absl::Now(); });
    site.tick = [this] { events_->Tick(); };
    site.on_denied = [this](const HttpRequest& request, const HttpIdentity& identity, unsigned status) {
      audit_->TellDenied(identity.who, {absl::StrCat(request.method, " ", request.path), request.peer, ""},
                         absl::StrCat(status), "HTTP", SteadyNow());
    };
    for (HttpRoute& route : MonitorRoutes({router_.get(), &jobs_, store_.get(), views_.get(), events_.get()}))
      site.routes.push_back(std::move(route));
    site.routes.push_back(
        DirectRoute("GET", "/healthz", HttpAccess::kNobody, [this](const HttpRequest&) { return Health(); }));
    site.routes.push_back(
        DirectRoute("GET", "/metrics", HttpAccess::kAdmin, [this](const HttpRequest&) { return ShowMetrics(); }));
    if (signed_ != nullptr && HasSignIn()) {
      flow_ = std::make_unique<SignInFlow>(
          signed_.get(), &sign_in_, &metrics_, [](const Access& access) { return IdentityFor(access); }, &SteadyNow);
      for (HttpRoute& route : flow_->Routes()) site.routes.push_back(std::move(route));
    }
    for (const HttpRoute& route : site.routes) http_routes_.push_back(absl::StrCat(route.method, " ", route.path));
    absl::StatusOr<std::unique_ptr<HttpEdge>> edge = HttpEdge::Start(edge_options, std::move(site));
    if (!edge.ok()) return edge.status();
    http_ = *std::move(edge);
    return absl::OkStatus();
  }

  HttpIdentity IdentityOf(const std::string& token) {
    const absl::StatusOr<Access> access = tenants_.Authenticate(token);
    if (!access.ok()) metrics_.CountDeniedCall();
    if (!access.ok() || access->IsOfRun()) return {};
    return IdentityFor(*access);
  }

  static HttpIdentity IdentityFor(const Access& access) {
    HttpAccess sees = IsOfCluster(access.role) ? HttpAccess::kAllTenants : HttpAccess::kTenant;
    if (Has(access.role, Right::kSeeMetrics)) sees = HttpAccess::kAdmin;
    return {sees, access.tenant, access.Text(), access.role, access.token_id, access.signer, access.subject};
  }

  bool HasSignIn() const {
    return std::any_of(issuers_.begin(), issuers_.end(),
                       [](const IssuerConfig& issuer) { return issuer.sign_in.has_value(); });
  }

  absl::Status KeepStartToken(const std::string& token) {
    if (!directory_.has_value()) {
      return absl::FailedPreconditionError(
          "this coordinator keeps its start token in memory only, and must be started anew to get another");
    }
    absl::MutexLock lock(&token_mutex_);
    absl::Status status = directory_->WriteToken(token);
    if (status.ok()) token_ = token;
    return status;
  }

  HttpReply Health() const {
    HttpReply reply;
    reply.status = serving_ ? 200 : 503;
    reply.body = serving_ ? "{\"status\":\"serving\"}\n" : "{\"status\":\"draining\"}\n";
    return reply;
  }

  HttpReply ShowMetrics() {
    metrics_.ShowJobs(jobs_);
    metrics_.ShowMailboxDepth(loops_->mailbox_depth());
    metrics_.ShowStore(store_->Trouble().empty());
    metrics_.ShowBytes(bytes_);
    metrics_.ShowHandshakes(FailedHandshakes());
    HttpReply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply.may_compress = true;
    reply.body = metrics_.Text();
    return reply;
  }

  // The loops end first, so that no job takes the end of its streams for the death of its workers.
  void Stop() {
    certificate_.reset();
    authorities_.reset();
    const absl::Status status = absl::UnavailableError("the coordinator has stopped; attach again when it is back");
    // Commits that wait for a full disk would hold the loops up for ever.
    store_->EndPatience();
    loops_->Stop();
    output_router_.streams().CloseAll(status);
    output_router_.calls().AnswerAll(status);
    queue_->Stop();
    router_->large_reader().Stop();
    sweeper_.reset();
    server_->Stop(kFarewell);
    if (flow_ != nullptr) flow_->Stop();
    http_.reset();
    output_router_.StopSpans();
    if (directory_.has_value()) directory_->RemoveAddress();
  }

  const CoordinatorOptions options_;
  // Before all that charges it.
  ByteLedger bytes_{options_.bytes};
  Metrics metrics_{kVersion, absl::Now()};
  std::unique_ptr<MemoryFile> tls_file_;
  // Null: clients are not asked for certificates.
  std::unique_ptr<MemoryFile> authorities_file_;
  Tenants tenants_;
  std::vector<IssuerConfig> issuers_;
  // Null: there are no identity providers.
  std::unique_ptr<SignedTokens> signed_;
  // Null: no client's certificate stands for a token.
  std::unique_ptr<ClientCertificates> certificates_;
  JobRegistry jobs_;
  QuotaGate gate_{&tenants_, &jobs_, &SteadyNow};
  OutputRouter output_router_;
  std::optional<StateDirectory> directory_;
  mutable absl::Mutex token_mutex_;
  // Guarded by token_mutex_ once calls may change it.
  std::string token_;
  std::string key_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<AnswerLedger> ledger_;
  std::unique_ptr<TokenMint> mint_;
  std::unique_ptr<TenantRegistrar> registrar_;
  std::unique_ptr<TokenRegistrar> tokens_;
  // Before the loops: they tell it when a job has ended.
  std::unique_ptr<LaunchQueue> queue_;
  std::unique_ptr<JobLoops> loops_;
  std::unique_ptr<CallRouter> router_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<TokenWatch> watch_;
  std::unique_ptr<WorkerService> worker_service_;
  std::unique_ptr<MonitorService> monitor_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<AccessService> access_service_;
  std::unique_ptr<GrpcServer> server_;
  SignIn sign_in_{[this](const std::string& token) { return IdentityOf(token); }, &SteadyNow};
  // Null: nobody signs in with an identity provider.
  std::unique_ptr<SignInFlow> flow_;
  std::unique_ptr<JobViews> views_;
  std::unique_ptr<LiveEvents> events_;
  std::unique_ptr<HttpEdge> http_;
  // Null: there are no files to watch.
  std::unique_ptr<ServedCertificate> certificate_;
  std::unique_ptr<ClientAuthorities> authorities_;
  std::vector<std::string> http_routes_;
  std::atomic<bool> serving_{false};
  absl::Mutex stop_mutex_;
  bool stopped_ ABSL_GUARDED_BY(stop_mutex_) = false;
};

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  if (absl::Status status = parts->Start(); !status.ok()) return status;
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(parts)));
}

Coordinator::Coordinator(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Coordinator::~Coordinator() { Drain(absl::ZeroDuration()); }

std::string Coordinator::address() const { return parts_->address(); }
std::string Coordinator::http_address() const { return parts_->http_address(); }
bool Coordinator::has_https() const { return parts_->has_https(); }
std::string Coordinator::token() const { return parts_->token(); }
const std::vector<std::string>& Coordinator::http_routes() const { return parts_->http_routes(); }
std::string Coordinator::token_file() const { return parts_->token_file(); }
void Coordinator::Drain(absl::Duration grace) { parts_->Drain(grace); }

}  // namespace farandole
