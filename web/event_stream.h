#ifndef FARANDOLE_WEB_EVENT_STREAM_H_
#define FARANDOLE_WEB_EVENT_STREAM_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace farandole {

// The text of a reply that goes on until its writer or its reader ends it: server-sent events. A reader that is too
// slow for what it is sent is cut off; nothing waits for it. Shared by its writer and the connection that carries it;
// the edge's thread only.
class EventStream {
 public:
  // More than this waits for no reader.
  static constexpr size_t kMostWaitingBytes = 64 << 10;

  // Nothing happens after its end.
  void Send(const std::string& text) {
    if (!is_open_) return;
    waiting_ += text;
    if (waiting_.size() > kMostWaitingBytes) End();
    Wake();
  }
  // The reader has left, or is to; what still waits is dropped.
  void End() {
    is_open_ = false;
    waiting_.clear();
    Wake();
  }
  bool is_open() const { return is_open_; }

  // For the connection: takes what waits; and `wake` is called when there is something to take, or the end.
  std::string Take() { return std::exchange(waiting_, std::string()); }
  void SetWake(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  void Wake() {
    if (wake_ != nullptr) wake_();
  }

  std::string waiting_;
  bool is_open_ = true;
  std::function<void()> wake_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_EVENT_STREAM_H_
