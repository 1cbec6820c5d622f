#include "server/edge/grpc_server.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "farandole/v1/access.grpc.pb.h"
#include "farandole/v1/admin.grpc.pb.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/edge/denials/denial_interceptor.h"
#include "server/edge/libraries/library_log.h"
#include "server/edge/messages/reading_places.h"
#include "server/edge/token_check.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// Of a message that nobody reads yet. gRPC would let it grow to the whole message on a fast link.
constexpr int kUnreadBytes = 64 << 10;
// A worker has one stream and few calls, a page's reader a few.
constexpr int kMaxStreamsPerConnection = 128;
// A call's headers; a signed token has 7 KiB at most, another one 256 bytes.
constexpr int kMaxHeaderBytes = 8 << 10;
// From a connection to the end of its TLS handshake.
constexpr int kHandshakeTimeoutMs = 5'000;
// A connection without a call, of a client that will open another when it needs one.
constexpr int kIdleConnectionMs = 600'000;
// The silence limit (2.5 s) finds dead workers; pings only clean up connections whose other end is gone.
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Workers may ping as often as this, also while they have no call.
constexpr int kMinPingIntervalMs = 1'000;
constexpr unsigned kCertificateIntervalSeconds = 1;
// The part of gRPC's memory for messages that have begun, and have not ended, which is as much as ReadingPlaces lets
// calls have; and no less than two of them.
constexpr uint64_t kBegunPart = 2;
constexpr uint64_t kLeastBegunBytes = 2 * kMaxMessageBytes;
// Of the log, for an owner, in TenantLines::kWindow.
constexpr size_t kMostLines = 2;

int64_t BegunBytes(uint64_t buffer_bytes) {
  return static_cast<int64_t>(std::max(buffer_bytes / kBegunPart, kLeastBegunBytes));
}

void Warn(const std::string& owner, const std::string& sentence) { spdlog::warn("{}: {}", owner, sentence); }

// Global switches of the gRPC library.
void PrepareLibrary() {
  static std::once_flag once;
  std::call_once(once, [] {
    TakeLibrariesLogs();
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// Without TLS: gRPC looks at tokens only where the credentials say who may connect, which is this host.
std::shared_ptr<grpc::ServerCredentials> Credentials(const GrpcServerOptions& options) {
  if (!options.tls_file.empty()) {
    using grpc::experimental::FileWatcherCertificateProvider;
    const bool asks_clients = !options.client_authorities_file.empty();
    grpc::experimental::TlsServerCredentialsOptions tls(std::make_shared<FileWatcherCertificateProvider>(
        options.tls_file, options.tls_file, options.client_authorities_file, kCertificateIntervalSeconds));
    tls.watch_identity_key_cert_pairs();
    if (asks_clients) tls.watch_root_certs();
    tls.set_cert_request_type(asks_clients ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    return grpc::experimental::TlsServerCredentials(tls);
  }
  if (options.tls_certificate.empty()) return grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({options.tls_key, options.tls_certificate});
  return grpc::SslServerCredentials(tls);
}

void SetBounds(uint64_t buffer_bytes, grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota("farandole");
  quota.Resize(static_cast<size_t>(buffer_bytes));
  builder->SetResourceQuota(quota);
  builder->SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder->SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  // A few KiB can inflate to the size of this machine's memory before anybody has looked at them. No client of ours
  // compresses.
  for (const grpc_compression_algorithm way : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder->SetCompressionAlgorithmSupportStatus(way, false);
  const std::pair<const char*, int> arguments[] = {
      {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection},
      {GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes},
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kUnreadBytes},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs},
      {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs},
  };
  for (const auto& [name, value] : arguments) builder->AddChannelArgument(name, value);
}

}  // namespace

GrpcServer::GrpcServer(const GrpcServerOptions& options, const Tenants* tenants, Metrics* metrics, AuditLog* audit)
    : options_(options),
      tenants_(tenants),
      metrics_(metrics),
      audit_(audit),
      lines_(kMostLines, "connections", &Warn),
      begun_messages_(BegunBytes(options.buffer_bytes),
                      [this](const std::string& owner, int64_t bytes) { OnTooMuchBegun(owner, bytes); }),
      health_({v1::WorkerService::service_full_name(), v1::MonitorService::service_full_name(),
               v1::AdminService::service_full_name(), v1::AccessService::service_full_name()},
              &begun_messages_) {}

void GrpcServer::OnTooMuchBegun(const std::string& owner, int64_t bytes) {
  metrics_->CountRefusedConnection();
  lines_.Tell(SteadyNow());
  if (!lines_.Admit(owner, SteadyNow())) return;
  Warn(owner, absl::StrCat("a connection was ended that had sent ", bytes,
                           " bytes of messages that have not ended; of all connections ",
                           BegunBytes(options_.buffer_bytes), " are the most"));
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Open(const GrpcServerOptions& options, const Tenants* tenants,
                                                             Metrics* metrics, AuditLog* audit) {
  std::unique_ptr<GrpcServer> server(new GrpcServer(options, tenants, metrics, audit));
  absl::StatusOr<std::unique_ptr<ClientListener>> listener =
      ClientListener::Open(options.listen, options.clients, metrics, &server->begun_messages_);
  if (!listener.ok()) return listener.status();
  server->listener_ = *std::move(listener);
  return server;
}

absl::Status GrpcServer::Start(const std::vector<grpc::Service*>& services) {
  PrepareLibrary();
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::ServerCredentials> credentials = Credentials(options_);
  credentials->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(tenants_, metrics_, audit_));
  using ConnectionType = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(ConnectionType::FROM_FD, credentials);
  SetBounds(options_.buffer_bytes, &builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<DenialInterceptors>(tenants_, audit_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.RegisterService(&health_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve on ", options_.listen.Text(), ": the TLS certificate does not fit its key"));
  }
  listener_->Start([acceptor = acceptor_.get()](int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    acceptor->HandleNewConnection(&connection);
  });
  return absl::OkStatus();
}

GrpcServer::~GrpcServer() { Stop(absl::ZeroDuration()); }

void GrpcServer::Stop(absl::Duration grace) {
  listener_->Stop();
  if (server_ == nullptr) return;
  health_.Stop();
  server_->Shutdown(gpr_time_from_nanos(absl::ToInt64Nanoseconds(grace), GPR_TIMESPAN));
  server_->Wait();
  server_.reset();
}

}  // namespace farandole
