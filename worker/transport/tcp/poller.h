#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_POLLER_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_POLLER_H_

namespace farandole {

// Tells the holder of a rank's engine role which of its connections to other hosts are ready. Calls come from the
// holder of the role. SocketSet does it for sockets, a simulation for its own streams.
class Poller {
 public:
  virtual ~Poller() = default;
  // Finds out which sockets are ready now, without blocking; true if any is.
  virtual bool Poll() = 0;
  // From now on the rank's bell is rung (Doorbell::Summon) once when a connection is or becomes ready, until the next
  // Poll. To be called after the bell's attention was set and Poll found nothing, and before the sleep.
  virtual void Rest() = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_POLLER_H_
