#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_STREAM_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_STREAM_H_

#include <string>

#include "absl/status/status.h"
#include "deploy/launcher/console.h"
#include "deploy/launcher/event_loop.h"
#include "deploy/launcher/line_splitter.h"
#include "deploy/launcher/line_tail.h"

namespace farandole::launcher {

// One output stream of one worker: from the pipe to the console, line by line, and byte by byte to a file where one is
// wanted. Owned by the launch; one thread. Owns its descriptors.
class WorkerStream {
 public:
  // `console` and `loop` are borrowed. Takes the read end `fd`, non-blocking.
  WorkerStream(Console::Stream stream, int worker, int fd, Console* console, EventLoop* loop);
  ~WorkerStream();
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  // From now on everything is written to this file too, which is made anew.
  //   FAILED_PRECONDITION  the file cannot be made; the text names it
  absl::Status CopyTo(const std::string& path);

  // Lets the loop read, or not: while the console is full, the workers wait.
  void Resume();
  void Pause();
  // Reads all that is there now, until the pipe is empty or the console is full. True: the pipe is empty or has ended.
  bool Drain();
  // Emits what is left of the last line.
  void Finish();

  const LineTail& tail() const { return tail_; }

 private:
  // Reads once. False: nothing is there, or the stream has ended.
  bool ReadSome();
  void CopyToFile(const char* bytes, size_t count);
  void Close();

  const Console::Stream stream_;
  const int worker_;
  int fd_;
  int file_fd_ = -1;
  std::string file_path_;
  Console* const console_;
  EventLoop* const loop_;
  bool is_watched_ = false;
  LineSplitter splitter_;
  LineTail tail_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_STREAM_H_
