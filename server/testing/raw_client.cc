#include "server/testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// RFC 9113.
constexpr uint8_t kData = 0, kHeaders = 1, kRstStream = 3, kSettings = 4, kPing = 6, kGoAway = 7, kWindowUpdate = 8,
                  kContinuation = 9;
constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;
constexpr uint16_t kInitialWindowSize = 4;
constexpr size_t kFrameHeader = 9;
constexpr size_t kMostFrameBytes = 16384;
constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

uint32_t Number(absl::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

std::string Bytes(uint32_t number, size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[count - 1 - i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

// RFC 7541: a string of less than 127 bytes, without Huffman's code.
std::string Text(absl::string_view text) { return absl::StrCat(Bytes(static_cast<uint32_t>(text.size()), 1), text); }

// RFC 7541: the fields of a call, none of which the server is to remember.
std::string Fields(const std::string& method, const std::string& token) {
  // POST, http, :path, :authority, content-type.
  std::string fields = absl::StrCat("\x83\x86\x04", Text(method), "\x01", Text("localhost"), "\x0f\x10",
                                    Text("application/grpc"), absl::string_view("\0", 1), Text("te"), Text("trailers"));
  if (!token.empty()) absl::StrAppend(&fields, "\x0f\x08", Text(absl::StrCat("Bearer ", token)));
  return fields;
}

}  // namespace

RawClient::RawClient(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  host.erase(std::remove_if(host.begin(), host.end(), [](char c) { return c == '[' || c == ']'; }), host.end());
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port)) return;
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_port = four.sin_port;
  const bool is_four = inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1;
  if (!is_four && inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return;
  socket_ = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* where = is_four ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
  if (socket_ >= 0 && connect(socket_, where, is_four ? sizeof(four) : sizeof(six)) == 0) return;
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

RawClient::~RawClient() {
  if (socket_ >= 0) close(socket_);
}

void RawClient::Greet(bool reads) {
  Write(kPreface);
  WriteFrame(kSettings, 0, 0, reads ? "" : absl::StrCat(Bytes(kInitialWindowSize, 2), Bytes(0, 4)));
}

void RawClient::Begin(const std::string& method, const std::string& token, size_t message_bytes) {
  Open(method, token);
  BeginMessage(message_bytes);
}

void RawClient::Call(const std::string& method, const std::string& token, absl::string_view message) {
  Open(method, token);
  WriteMessage(kEndStream, message.size(), message);
}

void RawClient::OpenStream(const std::string& method, const std::string& token, absl::string_view message) {
  Open(method, token);
  WriteMessage(0, message.size(), message);
}

void RawClient::BeginMessage(size_t message_bytes) {
  WriteMessage(0, message_bytes, "");
  calls_[last_stream_].left = message_bytes - 1;
}

void RawClient::Open(const std::string& method, const std::string& token) {
  last_stream_ = last_stream_ == 0 ? 1 : last_stream_ + 2;
  WriteFrame(kHeaders, kEndHeaders, last_stream_, Fields(method, token));
  calls_[last_stream_] = Begun{0, first_window_};
}

void RawClient::WriteMessage(uint8_t flags, size_t message_bytes, absl::string_view sent) {
  // gRPC's prefix: not compressed, and the length.
  const std::string data =
      absl::StrCat(absl::string_view("\0", 1), Bytes(static_cast<uint32_t>(message_bytes), 4), sent);
  window_ -= static_cast<int64_t>(data.size());
  calls_[last_stream_].window -= static_cast<int64_t>(data.size());
  WriteFrame(kData, flags, last_stream_, data);
}

size_t RawClient::SendEndlessHeaders(const std::string& method, size_t most) {
  last_stream_ = last_stream_ == 0 ? 1 : last_stream_ + 2;
  WriteFrame(kHeaders, 0, last_stream_, Fields(method, ""));
  const std::string field = absl::StrCat(absl::string_view("\0", 1), Text("x"), Text(std::string(100, 'y')));
  std::string fields;
  while (fields.size() + field.size() <= kMostFrameBytes) fields += field;
  // The kernel keeps the connection of a server that has closed it, and that has not read everything.
  const timeval limit = {2, 0};
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  size_t sent = 0;
  for (; is_open() && sent < most; sent += fields.size()) WriteFrame(kContinuation, 0, last_stream_, fields);
  return sent;
}

void RawClient::Pump(absl::Duration quiet) {
  while (is_open()) {
    while (SendMore()) {
    }
    if (!Read(quiet)) return;
    TakeFrames();
  }
}

bool RawClient::IsClosedWithin(absl::Duration limit) {
  const absl::Duration slice = absl::Milliseconds(50);
  for (absl::Duration waited; is_open() && waited < limit; waited += slice) Read(slice);
  return !is_open();
}

bool RawClient::SendMore() {
  for (auto& [stream, call] : calls_) {
    const int64_t most = std::min<int64_t>({window_, call.window, static_cast<int64_t>(call.left), kMostFrameBytes});
    if (most <= 0) continue;
    call.left -= static_cast<size_t>(most);
    call.window -= most;
    window_ -= most;
    sent_bytes_ += static_cast<uint64_t>(most);
    WriteFrame(kData, 0, stream, std::string(static_cast<size_t>(most), 'x'));
    return is_open();
  }
  return false;
}

void RawClient::Write(absl::string_view bytes) {
  while (socket_ >= 0 && !bytes.empty()) {
    const ssize_t written = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      close(socket_);
      socket_ = -1;
      return;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void RawClient::WriteFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  Write(absl::StrCat(Bytes(static_cast<uint32_t>(payload.size()), 3), Bytes(type, 1), Bytes(flags, 1), Bytes(stream, 4),
                     payload));
}

bool RawClient::Read(absl::Duration limit) {
  pollfd one = {socket_, POLLIN, 0};
  if (poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) != 1) return false;
  char buffer[65536];
  const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
  if (got > 0) {
    received_.append(buffer, static_cast<size_t>(got));
    return true;
  }
  close(socket_);
  socket_ = -1;
  return false;
}

void RawClient::TakeFrames() {
  while (received_.size() >= kFrameHeader) {
    const absl::string_view head = absl::string_view(received_).substr(0, kFrameHeader);
    const size_t bytes = Number(head.substr(0, 3));
    if (received_.size() < kFrameHeader + bytes) return;
    const std::string frame = received_.substr(0, kFrameHeader + bytes);
    received_.erase(0, kFrameHeader + bytes);
    TakeFrame(static_cast<uint8_t>(frame[3]), static_cast<uint8_t>(frame[4]),
              Number(absl::string_view(frame).substr(5, 4)), absl::string_view(frame).substr(kFrameHeader));
  }
}

void RawClient::TakeFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  const auto call = calls_.find(stream);
  if (type == kSettings && (flags & kAck) == 0) {
    for (; payload.size() >= 6; payload.remove_prefix(6)) {
      if (Number(payload.substr(0, 2)) != kInitialWindowSize) continue;
      const int64_t window = Number(payload.substr(2, 4));
      for (auto& [id, one] : calls_) one.window += window - first_window_;
      first_window_ = window;
    }
    WriteFrame(kSettings, kAck, 0, "");
  } else if (type == kPing && (flags & kAck) == 0) {
    WriteFrame(kPing, kAck, 0, payload);
  } else if (type == kWindowUpdate && stream == 0) {
    window_ += Number(payload);
  } else if (type == kWindowUpdate && call != calls_.end()) {
    call->second.window += Number(payload);
  } else if (call != calls_.end() && (type == kRstStream || (type == kHeaders && (flags & kEndStream) != 0))) {
    calls_.erase(call);
  } else if (type == kGoAway) {
    calls_.clear();
  }
}

}  // namespace farandole
