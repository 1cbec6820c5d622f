#include "worker/control/scripted_coordinator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace farandole {
namespace {

// A loopback port that is free at the moment; the kernel does not give it out again soon.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

ScriptedCoordinator::ScriptedCoordinator() : port_(FreePort()) {
  on_join = [](const v1::JoinRequest&, v1::JoinResponse* response) {
    response->set_heartbeat_interval_ms(500);
    return grpc::Status::OK;
  };
  on_attach = [this](Stream* stream) { return ReadAll(stream); };
}

ScriptedCoordinator::~ScriptedCoordinator() { Kill(); }

bool ScriptedCoordinator::Listen() {
  grpc::ServerBuilder builder;
  int bound = 0;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!tls_certificate_pem.empty()) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({tls_key_pem, tls_certificate_pem});
    tls.pem_root_certs = tls_client_ca_pem;
    if (!tls_client_ca_pem.empty()) {
      tls.client_certificate_request = tls_requires_certificate
                                           ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                           : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    }
    credentials = grpc::SslServerCredentials(tls);
  }
  builder.AddListeningPort(address(), credentials, &bound);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  return server_ != nullptr && bound == port_;
}

void ScriptedCoordinator::Kill() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::string ScriptedCoordinator::address() const { return absl::StrCat("127.0.0.1:", port_); }

grpc::Status ScriptedCoordinator::ReadAll(Stream* stream) {
  v1::WorkerMessage message;
  while (stream->Read(&message)) messages.Push(message);
  return grpc::Status::OK;
}

grpc::Status ScriptedCoordinator::Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                                       v1::JoinResponse* response) {
  const auto token = context->client_metadata().find("authorization");
  tokens.Push(token == context->client_metadata().end() ? "" : std::string(token->second.data(), token->second.size()));
  joins.Push(*request);
  return on_join(*request, response);
}

grpc::Status ScriptedCoordinator::Attach(grpc::ServerContext*, Stream* stream) { return on_attach(stream); }

grpc::Status ScriptedCoordinator::BeginCheckpoint(grpc::ServerContext*, const v1::BeginCheckpointRequest* request,
                                                  v1::BeginCheckpointResponse* response) {
  return on_begin(*request, response);
}

grpc::Status ScriptedCoordinator::CommitCheckpoint(grpc::ServerContext*, const v1::CommitCheckpointRequest* request,
                                                   v1::CommitCheckpointResponse* response) {
  return on_commit(*request, response);
}

grpc::Status ScriptedCoordinator::FindCheckpoint(grpc::ServerContext*, const v1::FindCheckpointRequest* request,
                                                 v1::FindCheckpointResponse* response) {
  return on_find(*request, response);
}

}  // namespace farandole
