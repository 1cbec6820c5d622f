#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_READING_PLACES_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_READING_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace farandole {

// The largest message that gRPC takes.
inline constexpr int64_t kMaxMessageBytes = 16 << 20;

// The calls whose headers have come and whose message has not. gRPC charges nobody for them: it holds some 14 KiB of
// each and what fits into its window, and of a message that is read, all that has come. So few are read at a time, and
// others wait, a bounded number too. A client sends a call's message with its headers, so a place is mostly taken for
// microseconds.
//
// One owner has at most as many places as are free then, half of all if it is alone: others find some. One of its
// clients has at most an eighth of all, so that it cannot stop the owner's others. Of those that wait, an owner has at
// most as many as there is still room for. Owned by the call router; any thread.
class ReadingPlaces {
 public:
  struct Limits {
    size_t places = 0;
    size_t waiting = 0;
  };
  // The limits for a process that may have so much memory, of which gRPC's buffers get `buffers`.
  static Limits LimitsFor(uint64_t memory, uint64_t buffers);

  struct Client {
    std::string owner;
    std::string name;
  };
  // Is given back by its destructor, at the latest when the places end.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { Leave(); }
    void Leave();

   private:
    friend class ReadingPlaces;
    Place(ReadingPlaces* places, Client client) : places_(places), client_(std::move(client)) {}

    ReadingPlaces* places_ = nullptr;
    Client client_;
  };
  using Go = std::function<void(Place)>;
  // A call that waits. Where `owner` is gone, it does not.
  struct Waiter {
    std::weak_ptr<void> owner;
    Go go;
  };

  explicit ReadingPlaces(Limits limits) : limits_(limits) {}

  // Has the waiter go on with a place: at once, or in the order of the client's calls when another place is given back,
  // on that thread. RESOURCE_EXHAUSTED, with when to retry: too many of this owner wait.
  absl::Status Enter(const Client& client, Waiter waiter) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t taken() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Queue {
    size_t taken = 0;
    std::deque<Waiter> waiting;
  };
  struct Owner {
    size_t taken = 0;
    size_t waiting = 0;
    absl::flat_hash_map<std::string, Queue> clients;
  };

  bool MayTake(const Owner& owner, const Queue& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const Client& client) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status AwaitLocked(const Client& client, Owner* owner, Queue* queue, Waiter waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeLocked(Owner* owner, Queue* client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client that is to go on next, if it may; else it keeps its turn.
  std::optional<std::pair<Go, Client>> NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropGone(Owner* owner, Queue* client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfIdle(const Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  // The clients that wait, each once; the next one in turn is first.
  std::deque<Client> turns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_READING_PLACES_H_
