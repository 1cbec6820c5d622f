#ifndef FARANDOLE_WORKER_CONTROL_SCRIPTED_COORDINATOR_H_
#define FARANDOLE_WORKER_CONTROL_SCRIPTED_COORDINATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_context.h"

namespace farandole {

// Things that another thread saw, for a test to wait for. Any thread.
template <typename T>
class Inbox {
 public:
  void Push(T value) {
    absl::MutexLock lock(&mutex_);
    values_.push_back(std::move(value));
  }

  // The oldest value; a default one, with `*in_time` false, if none came within ten seconds.
  T Pop(bool* in_time = nullptr) { return PopWithin(absl::Seconds(10), in_time); }

  T PopWithin(absl::Duration timeout, bool* in_time) {
    absl::MutexLock lock(&mutex_);
    const auto filled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !values_.empty(); };
    const bool came = mutex_.AwaitWithTimeout(absl::Condition(&filled), timeout);
    if (in_time != nullptr) *in_time = came;
    if (!came) return T();
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return values_.size();
  }

 private:
  mutable absl::Mutex mutex_;
  std::deque<T> values_ ABSL_GUARDED_BY(mutex_);
};

// A gRPC server that speaks WorkerService as a test scripts it: the worker's peer in the protocol. By default it takes
// every join and every hello, reads until the worker closes its side, and answers that with OK.
class ScriptedCoordinator : private v1::WorkerService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;

  // Called on the server's threads. Replaced before Listen only.
  std::function<grpc::Status(const v1::JoinRequest&, v1::JoinResponse*)> on_join;
  std::function<grpc::Status(Stream*)> on_attach;
  std::function<grpc::Status(const v1::BeginCheckpointRequest&, v1::BeginCheckpointResponse*)> on_begin;
  std::function<grpc::Status(const v1::CommitCheckpointRequest&, v1::CommitCheckpointResponse*)> on_commit;
  std::function<grpc::Status(const v1::FindCheckpointRequest&, v1::FindCheckpointResponse*)> on_find;

  // Set before Listen: it speaks TLS with these.
  std::string tls_certificate_pem;
  std::string tls_key_pem;
  // The authorities of clients' certificates; "": clients are not asked for any.
  std::string tls_client_ca_pem;
  // Clients without a certificate are refused, as by many proxies.
  bool tls_requires_certificate = false;

  // Arrived messages: joins, their token headers, and by the default script the streams' messages.
  Inbox<v1::JoinRequest> joins;
  Inbox<std::string> tokens;
  Inbox<v1::WorkerMessage> messages;

  ScriptedCoordinator();
  ~ScriptedCoordinator() override;

  // Listens on a free loopback port, or on that of the last time; false where it is taken.
  bool Listen();
  // Ends all calls with CANCELLED and closes the port.
  void Kill();
  // "127.0.0.1:PORT"; no server listens on this port before Listen and after Kill.
  std::string address() const;

  // The default script of a stream.
  grpc::Status ReadAll(Stream* stream);

 private:
  grpc::Status Join(grpc::ServerContext* context, const v1::JoinRequest* request, v1::JoinResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status BeginCheckpoint(grpc::ServerContext* context, const v1::BeginCheckpointRequest* request,
                               v1::BeginCheckpointResponse* response) override;
  grpc::Status CommitCheckpoint(grpc::ServerContext* context, const v1::CommitCheckpointRequest* request,
                                v1::CommitCheckpointResponse* response) override;
  grpc::Status FindCheckpoint(grpc::ServerContext* context, const v1::FindCheckpointRequest* request,
                              v1::FindCheckpointResponse* response) override;

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_SCRIPTED_COORDINATOR_H_
