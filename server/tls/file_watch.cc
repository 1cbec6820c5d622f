#include "server/tls/file_watch.h"

#include <utility>

#include "base/quiet_thread.h"

namespace farandole {

FileWatch::~FileWatch() {
  if (!thread_.joinable()) return;
  stop_.Notify();
  thread_.join();
}

void FileWatch::Start(Look look, Refused refused, absl::Duration interval) {
  look_ = std::move(look);
  refused_ = std::move(refused);
  thread_ = QuietThread([this, interval] {
    while (!stop_.WaitFor(interval)) LookOnce();
  });
}

void FileWatch::LookOnce() {
  const absl::Status status = look_();
  if (status.ok()) {
    seen_ = told_ = "";
    return;
  }
  const std::string sentence(status.message());
  if (sentence != seen_) {
    seen_ = sentence;
    return;
  }
  if (sentence == told_) return;
  told_ = sentence;
  refused_(sentence);
}

}  // namespace farandole
