#include "worker/order/relay_link.h"

#include <string.h>

#include <utility>

#include "absl/strings/string_view.h"

namespace farandole {

RelayLink::RelayLink(int peer, std::unique_ptr<RelayStream> stream, size_t most_waiting)
    : peer_(peer), most_waiting_(most_waiting), stream_(std::move(stream)) {}

bool RelayLink::Flush() {
  bool moved = false;
  if (sent_ < out_.size() && !takes_nothing_) {
    const absl::StatusOr<size_t> taken = stream_->Send(absl::string_view(out_).substr(sent_));
    if (taken.ok()) {
      sent_ += *taken;
      moved = *taken > 0;
    } else {
      takes_nothing_ = true;
    }
  }
  if (takes_nothing_) sent_ = out_.size();
  if (sent_ == out_.size() || sent_ >= most_waiting_) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  const bool is_flushed = out_.size() == sent_;
  stream_->WantWrite(!is_flushed);
  is_flushed_.store(is_flushed);
  return moved;
}

bool RelayLink::Receive() {
  if (!ending_.empty()) return false;
  if (begin_ > 0) {
    memmove(in_.get(), in_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == kMostUnread) return false;
  const absl::StatusOr<size_t> received = stream_->Receive(in_.get() + end_, kMostUnread - end_);
  if (!received.ok()) {
    ending_ = std::string(received.status().message());
    takes_nothing_ = true;
    return true;
  }
  end_ += *received;
  // While this input cannot be passed on, fetch no more: TCP pushes back.
  if (end_ == kMostUnread) stream_->WantRead(false);
  return *received > 0;
}

absl::StatusOr<bool> RelayLink::Next(int size, RelayFrame* frame) {
  if (begin_ == end_) return false;
  const absl::StatusOr<size_t> length = TakeFrame(absl::string_view(in_.get() + begin_, end_ - begin_), size, frame);
  if (!length.ok()) return length.status();
  if (*length == 0) return false;
  if (end_ - begin_ == kMostUnread) stream_->WantRead(true);
  begin_ += *length;
  return true;
}

}  // namespace farandole
