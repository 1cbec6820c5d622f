#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_BEGUN_MESSAGES_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_BEGUN_MESSAGES_H_

#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace farandole {

// Messages and headers that have begun to come, and have not ended. gRPC holds all that has come of them, whatever
// length a message announces, and tells nobody. But the kernel tells how many bytes a connection has received, and the
// calls on it report the messages that they have read: gRPC holds the difference at most.
//
// Where all connections with a token together have more than the bound, the one with most is ended, of the owner that
// has most. A worker comes back by itself then, as after any broken connection. Owned by GrpcServer; any thread. From
// the first call on with a thread of its own, which looks all the time, as long as that takes little of a processor.
class BegunMessages {
 private:
  // `descriptor` is gRPC's, which may have closed it: `peer` proves that it is still that of the connection.
  struct Connection {
    int descriptor = -1;
    sockaddr_storage peer = {};
    // Of the last call with a token; "": there was none yet. Under mutex_.
    std::string owner;
    std::atomic<int64_t> messages{0};
    std::atomic<int64_t> read_bytes{0};
    std::atomic<int64_t> calls{0};
    std::atomic<int64_t> ended_calls{0};
    // For the look alone: these as it found them last; received bytes that are of no message; how many of them messages
    // may still bring; how many the connection had beyond these when it last had no call; and that it was ended.
    int64_t seen_messages = 0;
    int64_t seen_bytes = 0;
    int64_t seen_ended = 0;
    int64_t other_bytes = 0;
    int64_t allowance = 0;
    int64_t idle_bytes = 0;
    bool is_ended = false;
  };

 public:
  // Is told of a connection that was ended, which had so many bytes of begun messages.
  using OnEnd = std::function<void(const std::string& owner, int64_t bytes)>;

  // A call on a connection, from its headers until gRPC has dropped it.
  class Call {
   public:
    Call() = default;
    Call(Call&& other) noexcept = default;
    Call& operator=(Call&& other) noexcept;
    ~Call() { End(); }
    // A message of so many bytes was read.
    void OnMessage(int64_t bytes);
    void End();

   private:
    friend class BegunMessages;
    std::shared_ptr<Connection> connection_;
  };

  // `most`: the bound, in bytes. `has_thread`: false for a test that looks by itself.
  BegunMessages(int64_t most, OnEnd on_end, bool has_thread = true)
      : most_(most), on_end_(std::move(on_end)), has_thread_(has_thread) {}
  ~BegunMessages();

  // A connection from `peer`, as gRPC names it, which gRPC is about to be given as this descriptor. False: there is
  // another one of that name, to another address of this host, and gRPC would not tell their calls apart.
  bool Add(const std::string& peer, int descriptor) ABSL_LOCKS_EXCLUDED(mutex_);
  // A call on the connection from `peer`, of an owner, or of nobody with a token (""). Nothing is counted of a
  // connection that is not known.
  Call Begin(const std::string& peer, const std::string& owner) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends what is beyond the bound.
  void Look(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_, looking_);

 private:
  struct Begun {
    std::shared_ptr<Connection> connection;
    int64_t bytes = 0;
  };
  // Of an owner.
  struct Sum {
    int64_t bytes = 0;
    std::vector<Begun> connections;
  };
  using Sums = absl::flat_hash_map<std::string, Sum>;

  static bool IsOpen(const Connection& connection);
  // How much gRPC holds of the connection at most, so many seconds after something was forgiven last; 0: as before.
  static int64_t Measure(double seconds, Connection* connection);
  // The part of its unread bytes that is of no message, as far as that is known.
  static int64_t Forgive(int64_t unread, int64_t messages, int64_t read, double seconds, Connection* connection);
  // False: it has ended, or there is no descriptor for that.
  static bool End(const Connection& connection);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_, looking_);
  Sums SumsByOwner(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t most_;
  const OnEnd on_end_;
  const bool has_thread_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, std::shared_ptr<Connection>> by_peer_ ABSL_GUARDED_BY(mutex_);
  // The name in by_peer_ of a descriptor's last connection.
  absl::flat_hash_map<int, std::string> names_ ABSL_GUARDED_BY(mutex_);
  // Starts with the first call.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);

  std::mutex looking_;
  absl::Time forgave_ ABSL_GUARDED_BY(looking_) = absl::InfinitePast();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_BEGUN_MESSAGES_H_
