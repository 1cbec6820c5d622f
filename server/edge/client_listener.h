#ifndef FARANDOLE_SERVER_EDGE_CLIENT_LISTENER_H_
#define FARANDOLE_SERVER_EDGE_CLIENT_LISTENER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/edge/listen_address.h"
#include "server/edge/messages/begun_messages.h"
#include "server/metrics/metrics.h"
#include "server/registry/tenants.h"

namespace farandole {

struct ClientListenerOptions {
  // How long a connection may take until a call with a known token is made on it.
  absl::Duration token_deadline = absl::Seconds(10);
  // A connection without a token that is older than this gives its place to the next one.
  absl::Duration patience = absl::Seconds(1);
  // Most connections without a token, of one address (of IPv6 one ClientNetwork) and of all.
  size_t most_strangers_of_address = 256;
  size_t most_strangers = 1024;
  // Most bytes that they have sent, all together: a message of the greatest size, and some more. Beyond that the
  // connection that has sent most of them is ended.
  uint64_t most_bytes_of_strangers = 32 << 20;
  // Most connections that wait for such a place; beyond them the one that has waited for the longest is closed.
  size_t most_waiting = 4096;
  // From this descriptor on, connections with a token are counted by tenant, for which each has a second descriptor:
  // the rest of the descriptors, and of the memory for connections, is for all tenants.
  int counted_from = 768;
  // Most of these. One more ends the newest of the tenant that has most of them.
  size_t most_counted = 64;
  // A connection whose descriptor is this number or greater is closed. The kernel assigns the lowest free number, so
  // all lower descriptors are in use then; the higher ones are reserved for the store.
  int descriptor_limit = 1024;
};

// Computes the bounds from a limit of descriptors and from the bytes of memory. Reserves the descriptors that the store
// and the HTTP edge need. Connections without a token, and those that wait for a place, get at most three eighths of
// the rest.
ClientListenerOptions OptionsFor(int descriptors, uint64_t memory);
// By this process's own limits.
ClientListenerOptions OptionsForThisProcess();
// Most connections of the HTTP edge, by the same limit.
int HttpConnectionsForThisProcess();

// Listens for gRPC's connections, in threads of its own. A connection is a stranger until a call with a known token is
// made on it. Strangers are few and short: beyond their number the oldest gives way, and no stranger outlives the
// deadline; nor do they send much, since gRPC buffers headers before it looks at them. Connections with a token have no
// bound while descriptors are plenty. Those that come later share the rest: beyond their number the tenant that has
// most of them loses its newest; the roles of the cluster count as a tenant of their own. Owned by GrpcServer.
//
// Not an EventLoop (base/event_loop.h), which waits without a limit: this thread waits until the next stranger's
// deadline, and then looks at all of them at once, under one lock.
class ClientListener {
 public:
  // Listens at all addresses that the host stands for; 0.0.0.0 and [::] stand for those of both families. Tells
  // `begun_messages`, which outlives it, of the connections that gRPC gets.
  // UNAVAILABLE: an address cannot be listened on (the system's words).
  static absl::StatusOr<std::unique_ptr<ClientListener>> Open(const ListenAddress& address,
                                                              const ClientListenerOptions& options, Metrics* metrics,
                                                              BegunMessages* begun_messages);
  // Stops.
  ~ClientListener();

  int port() const { return port_; }
  // From now on connections are taken: `serve(descriptor)` owns them. It is called on a thread of its own, on which
  // gRPC may go on to read the connection, for as long as something comes.
  void Start(std::function<void(int)> serve);
  // Takes no connection any more.
  void Stop();

  // Any thread. A call with a known token, which has this access, was made on the connection from `peer`, as gRPC names
  // it ("ipv4:127.0.0.1:4242").
  void OnToken(const std::string& peer, const Access& access);

 private:
  // A connection that was given to gRPC and has shown no token. `descriptor` is a second one of the same socket.
  struct Stranger {
    int descriptor = -1;
    std::string peer;
    std::string address;
    absl::Time since;
    // How many bytes it had sent when the listener looked last.
    uint64_t bytes = 0;
  };
  // A connection with a token that is counted: its second descriptor, and whose the first token was: a tenant's, or of
  // kClusterOwner.
  struct Counted {
    int descriptor = -1;
    std::string owner;
  };
  // A connection that waits for a place.
  struct Waiting {
    int descriptor = -1;
    std::string peer;
  };
  struct Address {
    size_t strangers = 0;
    std::deque<Waiting> waiting;
  };
  using Strangers = std::list<Stranger>;

  ClientListener(const ClientListenerOptions& options, Metrics* metrics, BegunMessages* begun_messages)
      : options_(options), metrics_(metrics), begun_messages_(begun_messages) {}

  absl::Status Listen(const ListenAddress& address);
  void Watch(int descriptor, uint32_t events);
  void Run();
  void Serve();
  int WaitMilliseconds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcceptFrom(int listener);
  void Advance(absl::Time now);
  // gRPC keeps what strangers send, such as headers without an end, before anybody looks at it.
  void EndGreedyStrangers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A connection that sends without a pause keeps gRPC reading on the serving thread, and others wait for that.
  void EndEndlessSender(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(int descriptor, std::string peer, const std::string& address);
  // Closes the connection that has waited for the longest, of the address that has most of them.
  void DropWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasPlace(const Address& address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes place for one more stranger of the address by the end of the oldest, where that is old enough.
  bool MakePlace(const std::string& name, const Address& address, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: no descriptor was free, or gRPC has another connection of this name, and the connection is closed.
  bool Admit(const Waiting& connection, const std::string& address, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has those served that have a place now.
  void AdmitWaiting(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The socket stays open for gRPC, or ends for it, too.
  void Forget(Strangers::iterator stranger, bool end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A stranger has shown a token, and is one no more.
  void Keep(Strangers::iterator stranger, const std::string& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetCounted(std::list<Counted>::iterator one, bool end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnHangUp(int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ClientListenerOptions options_;
  Metrics* const metrics_;
  BegunMessages* const begun_messages_;
  int port_ = 0;
  std::vector<int> listeners_;
  int poll_ = -1;
  int wake_ = -1;
  std::function<void(int)> serve_;
  std::thread thread_;
  std::thread serving_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Connections that are to be given to gRPC.
  std::deque<int> admitted_ ABSL_GUARDED_BY(mutex_);
  std::condition_variable has_admitted_;
  // A second descriptor of the connection that gRPC is being given, or reads, on that thread, and since when; -1: none.
  int served_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Time served_since_ ABSL_GUARDED_BY(mutex_);
  // The oldest first.
  Strangers strangers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Strangers::iterator> by_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Address> addresses_ ABSL_GUARDED_BY(mutex_);
  // The oldest first; by descriptor; and how many each owner has.
  std::list<Counted> counted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, std::list<Counted>::iterator> counted_by_descriptor_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> counts_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CLIENT_LISTENER_H_
