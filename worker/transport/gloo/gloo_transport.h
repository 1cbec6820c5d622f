#ifndef FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_TRANSPORT_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/core/doorbell.h"
#include "worker/transport/gloo/gloo_pair.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/transport.h"

namespace farandole {

// The transport between ranks of different hosts whose bytes Gloo moves, over its TCP device: for networks that are
// declared trusted. **Gloo's connections are not authenticated**: each pair of ranks that talks opens a port for a
// moment. The first process to connect to it passes for the peer, and can read and write the tensors. TcpTransport has
// no such door (docs/decisions/0003-tcp-between-hosts.md). The maker of a GlooTransport logs GlooLibrary::kWarning,
// once.
//
// Owned by the rank's engine; threads as Transport says. For each peer that is used there are a connection of Gloo's, a
// proven one of the PeerPort, and two threads; completion rings the rank's bell (Doorbell::Summon).
//
// Errors of Progress, which stick: as those of TcpTransport. After the first, the bytes of no transfer are touched.
class GlooTransport final : public Transport {
 public:
  static constexpr absl::Duration kConnectLimit = absl::Seconds(60);

  // `port`, at which the rank has entered its epoch, and `bell` are borrowed.
  GlooTransport(int rank, int size, PeerPort* port, Doorbell* bell, absl::Duration connect_limit = kConnectLimit);
  ~GlooTransport() override;

  absl::string_view name() const override { return "gloo"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(pairs_.size()); }
  // Each peer costs two connections and two threads: a ring has two of them, however many hosts there are.
  int most_direct_hosts() const override { return 2; }
  void Send(Transfer* transfer) override { PairOf(transfer->peer).Send(transfer); }
  void Receive(Transfer* transfer) override { PairOf(transfer->peer).Receive(transfer); }
  // Once, after an error: waits until Gloo's thread has let go of all bytes, which does not depend on any peer.
  absl::StatusOr<bool> Progress() override;
  void Abort(absl::Status reason) override;

 private:
  GlooPair& PairOf(int rank);

  const int rank_;
  PeerPort* const port_;
  Doorbell* const bell_;
  const absl::Duration connect_limit_;
  GlooDevices devices_;
  // Set by the pairs' threads, cleared by Progress.
  std::atomic<bool> completed_{false};
  std::atomic<bool> failed_{false};
  bool settled_ = false;

  mutable std::mutex mutex_;
  // Guarded by the mutex, but that the engine's role, which alone adds pairs, reads them without it. By rank; null
  // until the first transfer. shared: by callbacks of the port, which may outlive the transport.
  std::vector<std::shared_ptr<GlooPair>> pairs_;
  absl::Status error_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_TRANSPORT_H_
