#include "worker/device/nccl/nccl_ras.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(200);
constexpr char kStatus[] = R"(NCCL version 2.30.7 compiled with CUDA 13.3
CUDA runtime version 13030, driver version 13030

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          2            1          2        2

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  Rank 0 has launched up to operation 7 -- GPU 0 managed by process 41 on node 10.0.0.1
)";

// Listens on a loopback port, and follows a script with its first caller.
class Server {
 public:
  // The script's end of one connection.
  class Caller {
   public:
    explicit Caller(int fd) : fd_(fd) {}
    // False: the other side has ended it.
    bool Say(const std::string& words) const {
      return send(fd_, words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size());
    }
    std::string Hear() {
      std::string line;
      char byte = 0;
      while (recv(fd_, &byte, 1, 0) == 1 && byte != '\n') line += byte;
      return line;
    }
    // Answers as NCCL does, up to the question.
    void Greet() {
      if (Hear() == "CLIENT PROTOCOL 2") Say("SERVER PROTOCOL 2\n");
      if (absl::StartsWith(Hear(), "TIMEOUT ")) Say("OK\n");
      if (Hear() != "VERBOSE STATUS") Say("ERROR: Unknown command\n");
    }

   private:
    const int fd_;
  };

  explicit Server(std::function<void(Caller&)> script) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(own);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), bytes), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(own.sin_port));
    if (script == nullptr) return;  // it is bound, and refuses
    EXPECT_EQ(listen(fd_, 1), 0);
    thread_ = std::thread([this, script = std::move(script)] {
      const int fd = accept(fd_, nullptr, nullptr);
      Caller caller(fd);
      script(caller);
      close(fd);
    });
  }
  ~Server() {
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }
  const std::string& address() const { return address_; }
  bool HasAnotherCaller() const {
    pollfd waiting = {fd_, POLLIN, 0};
    return poll(&waiting, 1, 0) > 0;
  }

 private:
  const int fd_;
  std::string address_;
  std::thread thread_;
};

absl::StatusOr<std::string> Read(const Server& server, NcclRasBounds bounds = {kPatience}) {
  return ReadNcclRas(server.address(), bounds);
}

// Collects the lines that `say` was given, from any thread.
class Heard {
 public:
  struct Lines {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<LogLevel, std::string>> lines;
  };
  NcclRas::Say say() {
    return [lines = lines_](LogLevel level, const std::string& line) {
      const std::lock_guard<std::mutex> lock(lines->mutex);
      lines->lines.emplace_back(level, line);
      lines->changed.notify_all();
    };
  }
  std::vector<std::pair<LogLevel, std::string>> Await(size_t count) {
    std::unique_lock<std::mutex> lock(lines_->mutex);
    const auto has_all = [&] { return lines_->lines.size() >= count; };
    EXPECT_TRUE(lines_->changed.wait_for(lock, absl::ToChronoSeconds(kPatience), has_all));
    return lines_->lines;
  }

 private:
  // shared: with the thread that asks.
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

TEST(NcclRasTest, TheStatusIsAskedForAsNcclsOwnClientDoes) {
  Server server([](Server::Caller& caller) {
    caller.Greet();
    caller.Say(kStatus);
  });
  const absl::StatusOr<std::string> status = Read(server);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(*status, kStatus);
}

TEST(NcclRasTest, AnAnswerMayComeInPieces) {
  Server server([](Server::Caller& caller) {
    for (const char* replies : {"server protocol 9\n", "ok\n"}) {
      caller.Hear();
      for (const char* byte = replies; *byte != '\0'; ++byte) caller.Say(std::string(1, *byte));
    }
    caller.Hear();
    for (const char* byte = kStatus; *byte != '\0'; ++byte) caller.Say(std::string(1, *byte));
  });
  EXPECT_EQ(Read(server).value_or(""), kStatus);
}

TEST(NcclRasTest, NobodyListens) {
  const Server server(nullptr);
  EXPECT_TRUE(absl::IsNotFound(Read(server).status()));
}

TEST(NcclRasTest, WhoNeverAnswersIsNotWaitedForLonger) {
  Server server([](Server::Caller& caller) {
    caller.Hear();
    EXPECT_EQ(caller.Hear(), "") << "until the other side goes";
  });
  const absl::StatusOr<std::string> status = Read(server, {kShort});
  EXPECT_TRUE(absl::IsDeadlineExceeded(status.status())) << status.status();
  EXPECT_THAT(std::string(status.status().message()), HasSubstr("200ms"));
}

TEST(NcclRasTest, WhatHasComeInTimeCounts) {
  Server server([](Server::Caller& caller) {
    caller.Greet();
    caller.Say("Job summary\n");
    caller.Hear();
  });
  EXPECT_EQ(Read(server, {kShort}).value_or(""), "Job summary\n\n(the rest is missing: it takes longer than 200ms)\n");
}

TEST(NcclRasTest, AnEndlessAnswerIsCut) {
  Server server([](Server::Caller& caller) {
    caller.Greet();
    while (caller.Say("and so on and on\n")) {
    }
  });
  const absl::StatusOr<std::string> status = Read(server, {kPatience, 1000});
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->substr(1000), "\n(the rest is left out: it has more than 1000 bytes)\n");
}

TEST(NcclRasTest, WhoEndsTheConnectionEarlyHasSaidNothing) {
  Server at_once([](Server::Caller& caller) { caller.Hear(); });
  EXPECT_TRUE(absl::IsUnavailable(Read(at_once).status()));
  Server later([](Server::Caller& caller) { caller.Greet(); });
  EXPECT_TRUE(absl::IsUnavailable(Read(later).status()));
}

TEST(NcclRasTest, WhoSpeaksAnotherProtocolIsQuoted) {
  Server server([](Server::Caller& caller) {
    caller.Hear();
    caller.Say("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  const absl::Status status = Read(server).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it says \"HTTP/1.1 400 Bad Request\\r\""));
  Server binary([](Server::Caller& caller) {
    caller.Hear();
    caller.Say(std::string(500, '\1'));
    caller.Hear();
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(Read(binary).status())) << "nor does it wait for a line's end";
}

TEST(NcclRasTest, AnAddressHasAHostAndAPort) {
  for (const char* address : {"localhost", "localhost:ras"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadNcclRas(address, {kPatience}).status())) << address;
  }
  EXPECT_FALSE(absl::IsInvalidArgument(ReadNcclRas("[::1]:1", {kPatience}).status()));
}

TEST(NcclRasTest, FindingsAreWhatIsUnderErrorsAndWarnings) {
  EXPECT_THAT(NcclRasFindings(kStatus),
              ElementsAre("Warnings", "#0-0 (27a079b828ff1a75) MISMATCH",
                          "  Communicator ranks have different collective operation counts",
                          "  Rank 0 has launched up to operation 7 -- GPU 0 managed by process 41 on node 10.0.0.1"));
  EXPECT_THAT(NcclRasFindings("Errors\n======\n\nDEAD\n\nWarnings\n========\n\nTIMEOUT\n"),
              ElementsAre("Errors", "DEAD", "Warnings", "TIMEOUT"));
}

TEST(NcclRasTest, WithNothingBelowThemAllElseIsAFinding) {
  EXPECT_THAT(NcclRasFindings("Communicators... (0.000s)\n=============\n\nNo communicator data collected!\n\nErrors\n"
                              "======\n\nWarnings\n========\n\n"),
              ElementsAre("Communicators... (0.000s)", "No communicator data collected!"));
  EXPECT_THAT(NcclRasFindings("Job summary\n===\n\nErrors\nof others\n"),
              ElementsAre("Job summary", "Errors", "of others"));
  EXPECT_THAT(NcclRasFindings(""), ElementsAre());
}

TEST(NcclRasTest, FindingsAreAHundredLinesAtMost) {
  std::string status = "Errors\n======\n";
  for (int rank = 0; rank < 99; ++rank) absl::StrAppend(&status, "Rank ", rank, "\n");
  EXPECT_THAT(NcclRasFindings(status), SizeIs(100));
  EXPECT_EQ(NcclRasFindings(status).back(), "Rank 98");
  const std::vector<std::string> cut = NcclRasFindings(absl::StrCat(status, "Rank 99\n"));
  EXPECT_THAT(cut, SizeIs(100));
  EXPECT_EQ(cut.back(), "(and 2 more lines)");
}

TEST(NcclRasTest, AnAnswerIsSaidLineByLine) {
  Server server([](Server::Caller& caller) {
    caller.Greet();
    caller.Say(kStatus);
  });
  Heard heard;
  NcclRas(server.address()).Ask(heard.say());
  const auto lines = heard.Await(5);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0].second, absl::StrCat("NCCL's RAS at ", server.address(), " says of its communicators:"));
  EXPECT_EQ(lines[1].second, "NCCL's RAS: Warnings");
  for (const auto& [level, line] : lines) {
    EXPECT_EQ(level, LogLevel::kWarning);
    EXPECT_THAT(line, StartsWith("NCCL's RAS"));
  }
}

TEST(NcclRasTest, WhoIsAskedIsNotAskedAgainMeanwhile) {
  std::mutex open;
  open.lock();
  Server server([&open](Server::Caller& caller) {
    caller.Greet();
    const std::lock_guard<std::mutex> lock(open);
    caller.Say("all is well\n");
  });
  Heard heard;
  NcclRas ras(server.address());
  for (int time = 0; time < 3; ++time) ras.Ask(heard.say());
  open.unlock();
  EXPECT_EQ(heard.Await(2)[1].second, "NCCL's RAS: all is well");
  EXPECT_FALSE(server.HasAnotherCaller());
}

TEST(NcclRasTest, ItIsSaidWhyAnAnswerDoesNotCome) {
  Server server([](Server::Caller& caller) { caller.Hear(); });
  Heard heard;
  NcclRas(server.address()).Ask(heard.say());
  const auto lines = heard.Await(1);
  EXPECT_EQ(lines[0].first, LogLevel::kInfo);
  EXPECT_THAT(lines[0].second, HasSubstr("says nothing: it ended the connection without a status"));
}

}  // namespace
}  // namespace farandole
