#include "server/edge/grpc_server.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr int kMaxMessageBytes = 16 << 20;
// A worker has one stream and few calls; one process with many workers (a test, a proxy) still fits.
constexpr int kMaxStreamsPerConnection = 16384;
// The silence limit (2.5 s) finds dead workers; pings only clean up connections whose other end is gone.
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Workers may ping as often as this, also while they have no call.
constexpr int kMinPingIntervalMs = 1'000;

// gRPC's own log lines join ours; its errors are ours to describe, so they are warnings here.
void ForwardLog(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_ERROR) {
    spdlog::warn("gRPC: {}", line->message);
  } else {
    spdlog::debug("gRPC: {}", line->message);
  }
}

// Global switches of the gRPC library.
void PrepareLibrary() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(&ForwardLog);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const GrpcServerOptions& options) {
  if (options.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({options.tls_key, options.tls_certificate});
  return grpc::SslServerCredentials(tls);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              const std::vector<grpc::Service*>& services) {
  PrepareLibrary();
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, Credentials(options), &server->port_);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Two coordinators on one port would share its connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.listen,
        options.tls_certificate.empty() ? "" : "; if the address is free, the TLS certificate does not fit its key"));
  }
  return server;
}

GrpcServer::~GrpcServer() { Stop(absl::ZeroDuration()); }

void GrpcServer::SetServing(bool serving) {
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcServer::Stop(absl::Duration grace) {
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_time_from_nanos(absl::ToInt64Nanoseconds(grace), GPR_TIMESPAN));
  server_->Wait();
  server_.reset();
}

}  // namespace farandole
