#ifndef FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_PAIR_H_
#define FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_PAIR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/transport/transport.h"

namespace gloo::transport {
class Context;
class Device;
class Pair;
class UnboundBuffer;
}  // namespace gloo::transport

namespace farandole {

// Gloo's devices of one rank, each with a thread of Gloo's, by the local address that they listen at. Thread-safe.
class GlooDevices {
 public:
  // Throws Gloo's exceptions.
  std::shared_ptr<gloo::transport::Device> At(const std::string& host);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<gloo::transport::Device>> devices_;
};

// A rank's transfers with one peer, over a connection of Gloo's. Next to it lies a proven connection of the PeerPort:
// the two sides tell each other over it where Gloo listens, and before each transfer its length, so that transfers of
// unequal lengths and the peer's end are seen. Owned by a GlooTransport.
//
// Two threads wait for Gloo, one for each direction: Gloo's waits take one transfer at a time, and a wait that times
// out closes its connection for good, so that none of them ends but by completion, by an error, or by Stop.
class GlooPair {
 public:
  struct Ends {
    int rank = 0;
    int size = 0;
    int peer = 0;
    // The peer's name, for sentences.
    std::string who;
  };
  struct Events {
    // A transfer has completed. Any thread.
    std::function<void()> on_complete;
    // The connection has failed; it calls Stop. Any thread.
    std::function<void(absl::Status)> on_failure;
  };
  // `devices` is borrowed; `connect_limit` bounds Gloo's own connecting.
  GlooPair(Ends ends, GlooDevices* devices, Events events, absl::Duration connect_limit);
  // After Join.
  ~GlooPair();
  GlooPair(const GlooPair&) = delete;
  GlooPair& operator=(const GlooPair&) = delete;

  // Any thread, once: the proven connection, which is the pair's from now on, or why there is none.
  void Connected(absl::StatusOr<int> fd);
  // Engine role.
  void Send(Transfer* transfer) { Start(&out_, transfer); }
  void Receive(Transfer* transfer) { Start(&in_, transfer); }
  // Engine role: marks the transfers that have completed; true if there are any.
  bool TakeCompleted();
  // Any thread: ends all waits. Idempotent. Does not wait itself.
  void Stop();
  // Any thread but the pair's own, after Stop: comes back when no transfer's bytes are touched any more.
  void Settle();
  // Engine role, after Stop: ends the threads, after which the events are not called any more.
  void Join();

 private:
  struct Lane {
    bool is_out = false;
    std::deque<Transfer*> waiting;
    std::deque<Transfer*> completed;
    // Whether the thread has a transfer in its hands; and the one it waits for at the moment.
    bool busy = false;
    gloo::transport::UnboundBuffer* buffer = nullptr;
    // The number of the transfer, which is its slot in Gloo.
    uint64_t next = 0;
    std::thread thread;
  };

  void Start(Lane* lane, Transfer* transfer);
  void Run(Lane* lane);
  // Throw Gloo's exceptions, and absl::Status if our own connection ends.
  void Meet();
  void Move(Lane* lane, const Transfer& transfer);
  void MoveBytes(Lane* lane, const Transfer& transfer);
  // All bytes over the proven connection; throws absl::Status when it ends.
  void Say(const void* bytes, size_t size) const;
  void Hear(void* bytes, size_t size) const;
  const Ends ends_;
  GlooDevices* const devices_;
  const Events events_;
  const absl::Duration connect_limit_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  int fd_ = -1;
  absl::Status unreached_;
  bool met_ = false;
  bool stopped_ = false;
  std::shared_ptr<gloo::transport::Context> context_;
  Lane out_;
  Lane in_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_PAIR_H_
