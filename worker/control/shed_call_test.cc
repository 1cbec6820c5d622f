// How gRPC's own words look where a server's gRPC has no memory left, and what follows from them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/retry/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/control/coordinator_channel.h"
#include "worker/control/join_call.h"
#include "worker/control/service_client.h"

namespace farandole {
namespace {

using testing::HasSubstr;

constexpr char kReset[] = "Received RST_STREAM with error code 11";
constexpr char kEnhanceYourCalm = 11;

// An HTTP/2 server that ends its first calls as gRPC does when its memory quota is full, and then refuses each with
// NOT_FOUND.
class SheddingServer {
 public:
  enum class Way { kResetStream, kCloseConnection };

  SheddingServer(Way way, int shed) : way_(way), shed_(shed) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~SheddingServer() {
    shutdown(listener_, SHUT_RDWR);
    shutdown(peer_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  SheddingServer(const SheddingServer&) = delete;
  SheddingServer& operator=(const SheddingServer&) = delete;

  const std::string& address() const { return address_; }
  int calls() const { return calls_; }

 private:
  enum Frame : char { kHeaders = 1, kResetFrame = 3, kSettings = 4, kGoAway = 7 };

  void Serve() {
    for (int peer = 0; (peer = accept(listener_, nullptr, nullptr)) >= 0;) {
      peer_ = peer;
      Write(kSettings, 0, 0, "");
      std::string preface(24, '\0');
      if (Read(&preface)) {
        while (ServeFrame()) continue;
      }
      peer_ = -1;
      close(peer);
    }
  }

  // False: the connection is over.
  bool ServeFrame() {
    std::string head(9, '\0');
    if (!Read(&head)) return false;
    std::string payload(static_cast<size_t>(Number(head.substr(0, 3))), '\0');
    if (!Read(&payload)) return false;
    const char kind = head[3], flags = head[4];
    const int stream = Number(head.substr(5));
    if (kind == kSettings && flags == 0) Write(kSettings, 1, 0, "");
    return kind != kHeaders || EndCall(stream);
  }

  bool EndCall(int stream) {
    const std::string code = {0, 0, 0, kEnhanceYourCalm};
    if (++calls_ > shed_) {
      // By HPACK's static table: status 200, and the type's name.
      const std::string answer = absl::StrCat("\x88\x0f\x10\x10", "application/grpc", absl::string_view("\0\x0b", 2),
                                              "grpc-status", "\x01", "5");
      Write(kHeaders, 5, stream, answer);
    } else if (way_ == Way::kResetStream) {
      Write(kResetFrame, 0, stream, code);
    } else {
      Write(kGoAway, 0, 0, absl::StrCat(std::string(4, '\0'), code));
      shutdown(peer_, SHUT_WR);
      // Bytes that nobody has read would make a reset of the end, which overtakes the frame.
      for (std::string byte(1, '\0'); Read(&byte);) continue;
      return false;
    }
    return true;
  }

  static int Number(absl::string_view bytes) {
    int number = 0;
    for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
    return number;
  }
  bool Read(std::string* bytes) {
    return bytes->empty() ||
           recv(peer_, bytes->data(), bytes->size(), MSG_WAITALL) == static_cast<ssize_t>(bytes->size());
  }
  void Write(Frame kind, char flags, int stream, absl::string_view payload) {
    std::string bytes = {0, 0, static_cast<char>(payload.size()), kind, flags, 0, 0, 0, static_cast<char>(stream)};
    absl::StrAppend(&bytes, payload);
    EXPECT_EQ(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  const Way way_;
  const int shed_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string address_;
  std::atomic<int> peer_{-1};
  std::atomic<int> calls_{0};
  std::thread thread_;
};

absl::Status CallFor(absl::Duration room_patience, const SheddingServer& server) {
  CoordinatorAddress where;
  where.address = server.address();
  const auto client = ServiceClient::Open(where);
  EXPECT_TRUE(client.ok()) << client.status();
  ServiceClient::Request request;
  request.method = "MonitorService/GetJob";
  request.refusal = "refused to show job mnist";
  request.room_patience = room_patience;
  return (*client)->Call(request, nullptr).status();
}

TEST(ShedCallTest, ACallWhoseStreamGrpcResetsForWantOfMemoryIsMadeAgain) {
  const SheddingServer server(SheddingServer::Way::kResetStream, 2);
  EXPECT_EQ(CallFor(absl::Minutes(1), server).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server.calls(), 3);
}

TEST(ShedCallTest, ACallWhoseConnectionGrpcClosesForWantOfMemoryIsMadeAgain) {
  const SheddingServer server(SheddingServer::Way::kCloseConnection, 3);
  EXPECT_THAT(std::string(CallFor(absl::ZeroDuration(), server).message()), HasSubstr("GOAWAY"));
  EXPECT_EQ(CallFor(absl::Minutes(1), server).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server.calls(), 4);
}

TEST(ShedCallTest, ACallThatStaysShedIsToldAsOne) {
  const SheddingServer server(SheddingServer::Way::kResetStream, 1000);
  EXPECT_EQ(CallFor(absl::ZeroDuration(), server),
            absl::ResourceExhaustedError(
                absl::StrCat("coordinator ", server.address(), " has no memory for this call now: ", kReset)));
  EXPECT_EQ(server.calls(), 1);
}

grpc::Status Exhausted(absl::string_view text, const std::string& details = "") {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(text), details};
}

TEST(ShedCallTest, WhatGrpcHasShedMayGoWellLater) {
  for (const grpc::Status& shed :
       {Exhausted(kReset), Exhausted(""), Exhausted("stream terminated by RST_STREAM with error code: 11"),
        Exhausted("GOAWAY received")}) {
    EXPECT_TRUE(IsPassing(shed)) << shed.error_message();
    EXPECT_TRUE(MayJoinLater(shed)) << shed.error_message();
    EXPECT_TRUE(AsksToRetry(shed)) << shed.error_message();
    EXPECT_TRUE(IsForWantOfRoom(shed)) << shed.error_message();
  }
}

TEST(ShedCallTest, WhatTheCoordinatorOrGrpcHasRefusedIsFinal) {
  const auto marked = [](absl::string_view text) {
    return Exhausted(text, ErrorDetailsOf(absl::ResourceExhaustedError(text)));
  };
  for (const grpc::Status& refused :
       {marked("job RST_STREAM: at most 4 workers"), marked(""),
        // Of an older coordinator.
        Exhausted("wanted_size is 5000; this coordinator takes at most 4096 workers per job"),
        Exhausted("Received message larger than max (17825792 vs. 16777216)")}) {
    EXPECT_FALSE(IsPassing(refused)) << refused.error_message();
    EXPECT_FALSE(MayJoinLater(refused)) << refused.error_message();
    EXPECT_FALSE(AsksToRetry(refused)) << refused.error_message();
    EXPECT_FALSE(IsForWantOfRoom(refused)) << refused.error_message();
    EXPECT_THAT(std::string(Explain({}, "refused it", refused).message()), HasSubstr("refused it"));
  }
}

}  // namespace
}  // namespace farandole
