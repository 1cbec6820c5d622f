#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_SOCKET_SET_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_SOCKET_SET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/control/control_loop.h"
#include "worker/core/doorbell.h"
#include "worker/transport/tcp/poller.h"

namespace farandole {

// How a connection has sent bulk data to a peer.
struct PeerSending {
  int peer = 0;
  // For how long data was under way that the peer had not acknowledged, but would have had room for.
  absl::Duration time;
  // How many bytes the peer has acknowledged.
  uint64_t bytes = 0;
};

// The sockets of one rank to other hosts, owned by its worker. The holder of the engine's role polls them; when it
// rests, one thread waits for it and rings its bell. The holder of the role makes all calls except Wake.
//
// Not an EventLoop (base/event_loop.h), which takes a lock and waits: each step of a collective between hosts polls, so
// Poll takes no lock and never waits, and a second epoll descriptor, armed for one event, stands for all while it
// rests.
class SocketSet final : public Poller {
 public:
  using OnReady = std::function<void(bool readable, bool writable)>;

  // `loop` and `bell` are borrowed.
  // RESOURCE_EXHAUSTED: the process or the system has no descriptor left.
  static absl::StatusOr<std::unique_ptr<SocketSet>> Create(ControlLoop* loop, Doorbell* bell);
  // Sockets that were not removed are forgotten, not closed.
  ~SocketSet() override;
  SocketSet(const SocketSet&) = delete;
  SocketSet& operator=(const SocketSet&) = delete;

  // Calls `on_ready` from Poll, and only from there, for as long as `fd` can be read (level-triggered), and written
  // where that is wanted. An error or a hang-up is reported as both, even if neither is wanted, until the fd is
  // removed. The fd stays the caller's, who removes it before closing it. `peer`: the rank to which bulk data goes by
  // it, for Sending; -1: none does.
  //   RESOURCE_EXHAUSTED  the system watches no further descriptor (fs.epoll.max_user_watches) or has no memory
  absl::Status Add(int fd, OnReady on_ready, int peer = -1);
  // Initially only reading is wanted. Cheap where nothing changes. Allowed in callbacks, as Add and Remove.
  void WantWrite(int fd, bool want);
  void WantRead(int fd, bool want);
  // `on_ready` is not called any more, and lives until the end of the Poll that runs it. Nothing happens if `fd` is not
  // in the set.
  void Remove(int fd);

  // Calls on_ready of the sockets that are ready now.
  bool Poll() override;
  void Rest() override;
  // Any thread: what TCP tells of the connections to peers that are in the set, since they were made.
  std::vector<PeerSending> Sending() const;
  // Any thread: rings the bell, for what reached this rank in another way than by a socket of the set.
  void Wake() { bell_->Summon(); }

 private:
  struct Socket {
    int fd = -1;
    uint32_t events = 0;
    bool removed = false;
    OnReady on_ready;
  };

  SocketSet(ControlLoop* loop, Doorbell* bell) : loop_(loop), bell_(bell) {}
  absl::Status Open();
  void Want(int fd, uint32_t event, bool want);
  void Arm(uint32_t events);
  // On the loop's thread: a socket is ready and the role rests.
  void RingOnce();

  ControlLoop* const loop_;
  Doorbell* const bell_;
  // The sockets.
  int set_fd_ = -1;
  // Holds set_fd_ as EPOLLONESHOT, and is what the loop watches: so Rest is one call, and the loop's thread does not
  // wake while the role polls.
  int rest_fd_ = -1;
  // Set by Rest, cleared when it is disarmed: by the next Poll, or the ring.
  std::atomic<bool> rests_{false};
  absl::flat_hash_map<int, std::unique_ptr<Socket>> sockets_;
  // Those of sockets_ that have a peer, for Sending: who has the lock may use them.
  mutable std::mutex fds_mutex_;
  absl::flat_hash_map<int, int> peers_;
  // Removed while events of theirs may be in the hands of a Poll.
  std::vector<std::unique_ptr<Socket>> removed_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_SOCKET_SET_H_
