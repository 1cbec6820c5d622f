// The C interface of the control plane: worker/farandole_client.h.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "worker/abi/c_call.h"
#include "worker/control/service_client.h"
#include "worker/farandole_client.h"

// The caller's connection.
struct farandole_client {
  std::unique_ptr<farandole::ServiceClient> client;
};

namespace farandole {
namespace {

constexpr size_t kMostPemBytes = 1 << 20;
// Where systems keep the certificates that they trust, as Go's crypto/x509 looks for them.
constexpr const char* kSystemCertificates[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

std::string Given(const char* text) { return text == nullptr ? "" : text; }

absl::Status ReadPem(const char* file, const char* what, std::string* pem) {
  absl::StatusOr<std::string> text = ReadSmallFile(file, kMostPemBytes);
  if (!text.ok()) return text.status();
  if (!absl::StrContains(*text, "-----BEGIN ")) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " ", file, " holds nothing in PEM"));
  }
  *pem = *std::move(text);
  return absl::OkStatus();
}

// The certificates that the coordinator's must descend from.
absl::Status ReadTrust(const std::string& ca_file, CoordinatorAddress* where) {
  where->tls_ca_origin = ca_file;
  if (!ca_file.empty()) return ReadPem(ca_file.c_str(), "CA file", &where->tls_ca_pem);
  for (const char* file : kSystemCertificates) {
    where->tls_ca_origin = file;
    if (ReadPem(file, "CA file", &where->tls_ca_pem).ok()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("no CA file for coordinator ", where->address,
                                                 " was given, and this system has none in its usual places"));
}

absl::StatusOr<CoordinatorAddress> ReadAddress(const farandole_client_options& options) {
  CoordinatorAddress where;
  where.address = Given(options.address);
  where.coordinator_users = Given(options.coordinator_users);
  const std::string cert = Given(options.cert_file);
  const std::string key = Given(options.key_file);
  if (options.use_tls == 0) {
    if (!Given(options.ca_file).empty() || !cert.empty() || !key.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("files for TLS were given for coordinator ", where.address, ", and TLS is not to be spoken"));
    }
    if (where.address.empty() || IsOfThisHost(where.address)) return where;
    return absl::InvalidArgumentError(absl::StrCat("coordinator ", where.address,
                                                   " is not on this host, and no TLS was asked for: the token would "
                                                   "travel in the clear"));
  }
  if (cert.empty() != key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a certificate for coordinator ", where.address,
                                                   " needs its key: the certificate's file is \"", cert,
                                                   "\", the key's is \"", key, "\""));
  }
  where.tls_server_name = Given(options.server_name);
  absl::Status read = ReadTrust(Given(options.ca_file), &where);
  if (!read.ok()) return read;
  if (cert.empty()) return where;
  read = ReadOwnCertificate(cert, key, &where);
  if (!read.ok()) return read;
  return where;
}

int Open(const farandole_client_options* options, farandole_client** made) {
  *made = nullptr;
  if (Process().is_forked_child()) return Code(NotRunning());
  farandole_client_options read = {};
  memcpy(&read, options, std::min<size_t>(options->struct_bytes, sizeof(read)));
  absl::StatusOr<CoordinatorAddress> where = ReadAddress(read);
  if (!where.ok()) return Code(where.status());
  LeaveWordsToErrors();
  absl::StatusOr<std::unique_ptr<ServiceClient>> client = ServiceClient::Open(*std::move(where));
  if (!client.ok()) return Code(client.status());
  *made = new farandole_client{*std::move(client)};
  return FARANDOLE_OK;
}

absl::StatusOr<ServiceClient::Request> ReadRequest(const farandole_client_request& given) {
  farandole_client_request read = {};
  memcpy(&read, &given, std::min<size_t>(given.struct_bytes, sizeof(read)));
  if (read.method == nullptr || (read.message == nullptr && read.message_bytes != 0) || read.message_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a call of method \"", Given(read.method), "\" has ",
                                                   read.message_bytes, " bytes of request",
                                                   read.message == nullptr ? " at no address" : ""));
  }
  ServiceClient::Request request;
  request.method = read.method;
  if (read.message_bytes > 0)
    request.message.assign(static_cast<const char*>(read.message), static_cast<size_t>(read.message_bytes));
  request.refusal = read.refusal == nullptr ? absl::StrCat("refused ", read.method) : read.refusal;
  request.patience = absl::Milliseconds(std::max<int64_t>(read.patience_ms, 0));
  request.token = Given(read.token);
  request.token_origin = Given(read.token_origin);
  return request;
}

int Call(const farandole_client* client, const farandole_client_request& given, const void** answer,
         int64_t* answer_bytes, int (*interrupted)(void)) {
  static thread_local std::string kept;
  if (Process().is_forked_child()) return Code(NotRunning());
  const absl::StatusOr<ServiceClient::Request> request = ReadRequest(given);
  if (!request.ok()) return Code(request.status());
  absl::StatusOr<std::string> told = client->client->Call(*request, Wrap(interrupted));
  if (!told.ok()) return Code(told.status());
  kept = *std::move(told);
  *answer = kept.data();
  *answer_bytes = static_cast<int64_t>(kept.size());
  return FARANDOLE_OK;
}

}  // namespace
}  // namespace farandole

extern "C" {

int farandole_client_open(const farandole_client_options* options, farandole_client** client) {
  return farandole::Open(options, client);
}

void farandole_client_close(farandole_client* client) {
  // A forked child has none of gRPC's threads, for which the connection's end would wait.
  if (!farandole::Process().is_forked_child()) delete client;
}

int farandole_client_call(farandole_client* client, const farandole_client_request* request, const void** answer,
                          int64_t* answer_bytes, int (*interrupted)(void)) {
  return farandole::Call(client, *request, answer, answer_bytes, interrupted);
}

}  // extern "C"
