#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/transport/testing/inproc_fabric.h"
#include "worker/transport/transport.h"

namespace farandole {

// One rank's end of an InprocFabric, for tests and simulations: the ranks may be threads, or stepped by one thread in
// any order. Messages go through bounded queues, each after its length, so a large one needs both sides' Progress.
// Owned by the rank's engine; threads as Transport says.
//
// Errors of Progress: the reason of the first Abort of any rank; INTERNAL, for all ranks, where transfers that match
// have different lengths.
class InprocTransport : public Transport {
 public:
  // `fabric` is borrowed.
  InprocTransport(InprocFabric& fabric, int rank);

  absl::string_view name() const override { return "inproc"; }
  int rank() const override { return rank_; }
  int size() const override { return fabric_.size(); }

  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  absl::StatusOr<bool> Progress() override;
  void Abort(absl::Status reason) override;

 private:
  // Transfers with one peer that are not complete, in the order of their start.
  struct Peer {
    std::deque<Transfer*> sends;
    std::deque<Transfer*> receives;
    // Whether the length of the first one has been written, or read.
    bool send_begun = false;
    bool receive_begun = false;
  };

  // Give whether anything moved.
  bool Push(int peer, Peer* state);
  bool Pull(int peer, Peer* state);

  InprocFabric& fabric_;
  const int rank_;
  std::map<int, Peer> peers_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_TRANSPORT_H_
