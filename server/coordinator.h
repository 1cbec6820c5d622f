#ifndef FARANDOLE_SERVER_COORDINATOR_H_
#define FARANDOLE_SERVER_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/bytes/byte_ledger.h"
#include "server/job/job.h"
#include "server/queue/launch_queue.h"
#include "server/registry/retention.h"
#include "server/spans/otlp_options.h"

namespace farandole {

struct CoordinatorOptions {
  // HOST:PORT; port 0: any free one. Beyond loopback only with TLS.
  std::string listen = "127.0.0.1:0";
  // Where jobs, tenants and the start token are kept; "": in memory only, the token in token().
  std::string state_dir;
  // HOST:PORT of the HTTP edge, on loopback; "auto": any free port there; "": none.
  std::string http;
  // The same by HTTPS with the certificate below, also beyond loopback; at most one of both.
  std::string https;
  // Names under which browsers reach the HTTP edge, itself or by a proxy.
  std::vector<std::string> http_hosts;
  // PEM files; both or none. They may be replaced while the coordinator runs.
  std::string tls_cert;
  std::string tls_key;
  // The same in memory, instead of the files: for a launcher that makes a certificate for this coordinator only.
  std::string tls_cert_pem;
  std::string tls_key_pem;
  // A PEM file with the authorities of clients' certificates, which may be replaced likewise, and the trust domain of
  // the names in those; both or none, and only with the files above. With them a client may prove itself by a
  // certificate in place of a token.
  std::string client_ca;
  std::string trust_domain;
  // The identity providers whose signed tokens are taken (docs/security.md), a YAML file; "": none.
  std::string identity_file;
  // The host that address() names where `listen` is one that stands for all addresses; "": that of `listen`.
  std::string advertised_host;
  JobOptions job;
  // For launches that wait for room in their tenants' quotas.
  LaunchQueue::Options queue;
  // How long jobs that have ended are kept, and how often the coordinator looks whether some are to be deleted.
  Retention retention;
  absl::Duration sweep_interval = absl::Seconds(10);
  // Threads that decide about jobs; 1 to 64.
  size_t job_loops = 2;
  // How long a client of the HTTP edge may take for a request.
  absl::Duration http_timeout = absl::Seconds(10);
  // How long a connection to the port of gRPC may take until a call with a known token is made on it.
  absl::Duration token_deadline = absl::Seconds(10);
  // Memory for what gRPC holds of all connections; 0: a part of this process's.
  uint64_t grpc_bytes = 0;
  // Messages that may wait for a worker that does not read its stream.
  size_t stream_queue_limit = 10000;
  // The most bytes that are held in memory on behalf of tenants.
  ByteLimits bytes;
  // Where spans of jobs' runs go.
  OtlpOptions spans;
};

// The complete coordination service, in this process: `farandole serve` runs one, and a launcher may embed one. Its
// jobs stay in the state directory; another coordinator that starts there takes them over. Owned by its starter;
// thread-safe.
class Coordinator {
 public:
  // Opens the state, takes over the jobs that were forming or running, and then the port.
  //   INVALID_ARGUMENT     an option is out of bounds, or a listening address is not loopback and there is no TLS
  //   ALREADY_EXISTS       the port is in use
  //   FAILED_PRECONDITION  another coordinator holds the state directory, or the token file is not private
  //   PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS  as the system, or the database, says
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options);
  // Drains without grace.
  ~Coordinator();

  // HOST:PORT, with the port that was taken; also in the file STATE_DIR/address while the coordinator listens.
  std::string address() const;
  // "" for none.
  std::string http_address() const;
  // Whether http_address() speaks HTTPS.
  bool has_https() const;
  // The requests that the HTTP port answers: "GET /metrics".
  const std::vector<std::string>& http_routes() const;
  // The start token, of the tenant "default", with admin rights.
  std::string token() const;
  // Where the token is kept; "" for nowhere.
  std::string token_file() const;

  // Stops the service in an orderly way. The health check answers NOT_SERVING, and Join answers UNAVAILABLE. Streams
  // stay open until their jobs end or `grace` is over, then they close with UNAVAILABLE. On return all decisions are
  // durable. A second call with a shorter grace shortens the first. Jobs continue when a coordinator starts on the same
  // state directory.
  void Drain(absl::Duration grace);

 private:
  class Parts;
  explicit Coordinator(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_COORDINATOR_H_
