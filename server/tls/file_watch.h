#ifndef FARANDOLE_SERVER_TLS_FILE_WATCH_H_
#define FARANDOLE_SERVER_TLS_FILE_WATCH_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_notification.h"

namespace farandole {

// Looks at files that may be replaced, again and again, in a thread of its own.
class FileWatch {
 public:
  // Looks once, and takes what is new. An error says why what the files hold is not taken.
  using Look = std::function<absl::Status()>;
  // Is told of a refusal; once for each sentence that two looks in turn have found, since files that are being replaced
  // do not fit for a moment.
  using Refused = std::function<void(const std::string& sentence)>;

  FileWatch() = default;
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  // Ends the watch; neither function is called any more.
  ~FileWatch();

  // Begins the watch; to be called once. Both functions are called on its thread.
  void Start(Look look, Refused refused, absl::Duration interval);

 private:
  void LookOnce();

  // For the thread only.
  Look look_;
  Refused refused_;
  // A refusal that was seen once, and the one that was told.
  std::string seen_;
  std::string told_;

  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TLS_FILE_WATCH_H_
