#ifndef FARANDOLE_SERVER_EDGE_HEALTH_HEALTH_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_HEALTH_HEALTH_SERVICE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "server/edge/messages/begun_messages.h"

namespace farandole {

class HealthCall;

// grpc.health.v1.Health, with Check and Watch. In the place of gRPC's own, which keeps calls without a token and
// without a message, as many as there are. Here a connection has few calls at a time and all have a bound, beyond which
// the oldest ends; a message that does not come in time ends its call. Outlives the server's calls.
class HealthService : public grpc::Service {
 public:
  struct Bounds {
    size_t calls = 1024;
    size_t calls_of_connection = 4;
  };

  // It answers for the server ("") and for services of these names. Calls report what they read to `begun_messages`,
  // which outlives them; null: to nobody.
  explicit HealthService(std::vector<std::string> services, BegunMessages* begun_messages = nullptr)
      : HealthService(std::move(services), Bounds(), begun_messages) {}
  HealthService(std::vector<std::string> services, Bounds bounds, BegunMessages* begun_messages = nullptr);

  // From now on Check and Watch answer this. Not serving before the first call.
  void SetServing(bool is_serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all calls, which may be watching, and each that comes.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class HealthCall;

  // Has a call's message read, or ends the call.
  void Enter(HealthCall* call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(HealthCall* call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(HealthCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<HealthCall>> Calls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // 1: it serves, 2: it does not, 0: this is none of its services.
  int StatusOf(absl::string_view service) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<std::string> services_;
  const Bounds bounds_;
  BegunMessages* const begun_messages_;
  absl::Mutex mutex_;
  bool is_serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // The oldest first.
  std::list<HealthCall*> calls_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> of_connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_HEALTH_HEALTH_SERVICE_H_
