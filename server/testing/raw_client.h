#ifndef FARANDOLE_SERVER_TESTING_RAW_CLIENT_H_
#define FARANDOLE_SERVER_TESTING_RAW_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

// A client that speaks HTTP/2 by hand, so that a test can send what no gRPC library would: calls that never end,
// without a token. One thread.
class RawClient {
 public:
  // Connects to HOST:PORT, both numeric. `is_open()` says whether that worked.
  explicit RawClient(const std::string& address);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool is_open() const { return socket_ >= 0; }
  // The connection's preface; without it the server hears nothing. `reads`: false to let it send no byte of a message,
  // by a window of none.
  void Greet(bool reads = true);
  // Begins a call of `method`, "/PACKAGE.SERVICE/METHOD", whose one message has `message_bytes`, of which all but the
  // last are to be sent. "" for no token.
  void Begin(const std::string& method, const std::string& token, size_t message_bytes);
  // Makes a whole call of `method` with a message.
  void Call(const std::string& method, const std::string& token, absl::string_view message);
  // Opens a stream of `method` with its first message.
  void OpenStream(const std::string& method, const std::string& token, absl::string_view message);
  // On that stream, as Begin does in its call.
  void BeginMessage(size_t message_bytes);
  // Begins a call with headers that have no end, and sends some `most` bytes of them as far as the server takes them.
  // Returns how many that were.
  size_t SendEndlessHeaders(const std::string& method, size_t most);
  // Sends as much as the server's windows allow, until it says nothing for `quiet`.
  void Pump(absl::Duration quiet);
  // Whether the server closes the connection within `limit`.
  bool IsClosedWithin(absl::Duration limit);

  // Calls that the server has not ended.
  size_t calls() const { return calls_.size(); }
  // Bytes of messages that were sent.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Begun {
    size_t left = 0;
    int64_t window = 0;
  };

  void Write(absl::string_view bytes);
  void Open(const std::string& method, const std::string& token);
  void WriteMessage(uint8_t flags, size_t message_bytes, absl::string_view sent);
  void WriteFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);
  bool SendMore();
  bool Read(absl::Duration limit);
  void TakeFrames();
  void TakeFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);

  int socket_ = -1;
  uint32_t last_stream_ = 0;
  int64_t window_ = 65535;
  int64_t first_window_ = 65535;
  std::map<uint32_t, Begun> calls_;
  std::string received_;
  uint64_t sent_bytes_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TESTING_RAW_CLIENT_H_
