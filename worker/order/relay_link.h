#ifndef FARANDOLE_WORKER_ORDER_RELAY_LINK_H_
#define FARANDOLE_WORKER_ORDER_RELAY_LINK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/order/relay_frame.h"
#include "worker/order/relay_stream.h"

namespace farandole {

// One leader's connection to the leader of another host, with frames to send and those received in part. Owned by a
// HostsChannel, and part of its rank's engine role, except for IsFlushed. Nothing blocks.
class RelayLink {
 public:
  // Bytes that may wait for a slow peer; a frame more may be added. Some thousand posts or entries.
  static constexpr size_t kMostWaiting = 1 << 20;

  RelayLink(int peer, std::unique_ptr<RelayStream> stream, size_t most_waiting = kMostWaiting);
  RelayLink(const RelayLink&) = delete;
  RelayLink& operator=(const RelayLink&) = delete;

  // The leader at the other end.
  int peer() const { return peer_; }

  // Frames are appended to `out` while there is room, and sent by Flush, which gives whether any bytes went.
  bool HasRoom() const { return out_.size() - sent_ < most_waiting_; }
  std::string* out() { return &out_; }
  bool Flush();
  // Any thread: whether all that was appended before the last Flush is in the system's hands, or can never be.
  bool IsFlushed() const { return is_flushed_.load(); }

  // Reads input, if the poll has found some, up to a bound; returns whether it read anything.
  bool Receive();
  // Takes the next frame, in an epoch of `size` ranks. False: none is complete. INVALID_ARGUMENT: as TakeFrame.
  absl::StatusOr<bool> Next(int size, RelayFrame* frame);
  // Why nothing more can come behind the frames that are there: "ended", "broke: Connection reset by peer"; "": it can.
  const std::string& ending() const { return ending_; }

 private:
  static constexpr size_t kMostUnread = kMostFrameBytes + (64 << 10);

  const int peer_;
  const size_t most_waiting_;
  const std::unique_ptr<RelayStream> stream_;
  std::string out_;
  size_t sent_ = 0;
  bool takes_nothing_ = false;  // bytes sent to it are dropped
  std::atomic<bool> is_flushed_{true};
  // Bytes received and not taken: [begin_, end_).
  const std::unique_ptr<char[]> in_{new char[kMostUnread]};
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string ending_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_RELAY_LINK_H_
