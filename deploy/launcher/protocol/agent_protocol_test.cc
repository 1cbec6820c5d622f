// Frames and messages between launcher and agent: what one writes the other reads, and nothing else is taken for it.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "deploy/launcher/protocol/agent_frames.h"
#include "deploy/launcher/protocol/agent_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;

AgentOrder MakeOrder() {
  AgentOrder order;
  order.arguments = {"python", "train.py", "--lr=0.1; rm -rf $HOME", ""};
  order.environment = {"PATH=/bin", "EMPTY=", "ODD=a=b\nc"};
  order.directory = "/home/me/my project";
  order.host = "user@node-b";
  order.shares = {{"node-a", 0, 6, false}, {"user@node-b", 6, 2, false}};
  order.size_here = 2;
  order.first_index = 65536;
  order.is_elastic = true;
  order.outlives_launcher = true;
  order.size = 8;
  order.job = "train";
  order.join_timeout_ms = 1500;
  order.coordinators = {"10.0.0.1:7070", "[fd00::1]:7070"};
  order.ca_pem = "-----BEGIN CERTIFICATE-----\n";
  order.token = "secret";
  return order;
}

// All messages, as they are written, with their readers.
struct Sample {
  const char* name;
  std::string message;
  std::function<absl::Status(absl::string_view)> read;
};

std::vector<Sample> Samples() {
  WorkerEnd end;
  end.code = 3;
  return {
      {"hello", Encode(AgentHello{kAgentProtocol, "0.1.0"}), [](auto text) { return DecodeHello(text).status(); }},
      {"order", Encode(MakeOrder()), [](auto text) { return DecodeOrder(text).status(); }},
      {"readiness", Encode(AgentReadiness{"node-3"}), [](auto text) { return DecodeReadiness(text).status(); }},
      {"staff", Encode(AgentStaff{{3, 65535}}), [](auto text) { return DecodeStaff(text).status(); }},
      {"signal", Encode(AgentSignal{15, true, 7}), [](auto text) { return DecodeSignal(text).status(); }},
      {"refusal", Encode(AgentRefusal{absl::StatusCode::kNotFound, "no such program"}),
       [](auto text) { return DecodeRefusal(text).status(); }},
      {"start", Encode(AgentStart{3, 4711}), [](auto text) { return DecodeStart(text).status(); }},
      {"end", Encode(AgentEnd{3, end}), [](auto text) { return DecodeEnd(text).status(); }},
      {"taken", EncodeTaken(70000), [](auto text) { return DecodeTaken(text).status(); }},
  };
}

TEST(AgentMessagesTest, AnOrderArrivesAsItWasGiven) {
  const AgentOrder given = MakeOrder();
  const absl::StatusOr<AgentOrder> order = DecodeOrder(Encode(given));
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->arguments, given.arguments);
  EXPECT_EQ(order->environment, given.environment);
  EXPECT_EQ(order->directory, given.directory);
  EXPECT_EQ(order->host, "user@node-b");
  ASSERT_EQ(order->shares.size(), 2u);
  EXPECT_EQ(order->shares[1].host, "user@node-b");
  EXPECT_EQ(order->shares[1].first, 6);
  EXPECT_EQ(order->shares[1].count, 2);
  EXPECT_EQ(order->size_here, 2u);
  EXPECT_EQ(order->first_index, 65536u);
  EXPECT_TRUE(order->is_elastic);
  EXPECT_TRUE(order->outlives_launcher);
  EXPECT_EQ(order->size, 8u);
  EXPECT_EQ(order->job, "train");
  EXPECT_EQ(order->join_timeout_ms, 1500u);
  EXPECT_EQ(order->coordinators, given.coordinators);
  EXPECT_EQ(order->ca_pem, given.ca_pem);
  EXPECT_EQ(order->token, "secret");
}

TEST(AgentMessagesTest, WhatWorkersSayAndHowTheyEndArrives) {
  const std::string bytes("\0\xff\n", 3);
  const std::string message = Encode(AgentOutput{7, true, bytes});
  const absl::StatusOr<AgentOutput> output = DecodeOutput(message);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->worker, 7u);
  EXPECT_TRUE(output->is_stderr);
  EXPECT_EQ(output->bytes, bytes);
  WorkerEnd end;
  end.signal = 9;
  EXPECT_EQ(DecodeEnd(Encode(AgentEnd{65535, end}))->end.signal, 9);
  EXPECT_EQ(DecodeEnd(Encode(AgentEnd{65535, end}))->worker, 65535u);
  EXPECT_EQ(DecodeStaff(Encode(AgentStaff{{7, 65535}}))->workers, (std::vector<int>{7, 65535}));
  EXPECT_EQ(DecodeReadiness(Encode(AgentReadiness{"node-3"}))->hostname, "node-3");
  EXPECT_EQ(DecodeTaken(EncodeTaken(70000)).value(), 70000u);
  EXPECT_EQ(DecodeRefusal(Encode(AgentRefusal{absl::StatusCode::kNotFound, "no"}))->code, absl::StatusCode::kNotFound);
}

TEST(AgentMessagesTest, NothingShorterOrLongerIsTakenForAMessage) {
  for (const Sample& sample : Samples()) {
    EXPECT_TRUE(sample.read(sample.message).ok()) << sample.name;
    for (size_t length = 0; length < sample.message.size(); ++length) {
      EXPECT_TRUE(absl::IsInvalidArgument(sample.read(sample.message.substr(0, length)))) << sample.name << length;
    }
    EXPECT_THAT(std::string(sample.read(sample.message + "x").message()), HasSubstr("1 bytes too many")) << sample.name;
  }
}

TEST(AgentMessagesTest, GarbageIsRefusedOrReadWithinBounds) {
  std::minstd_rand random(20261121);
  for (int round = 0; round < 20000; ++round) {
    for (const Sample& sample : Samples()) {
      std::string garbled = sample.message;
      for (int i = 0; i < 3; ++i) garbled[random() % garbled.size()] = static_cast<char>(random());
      static_cast<void>(sample.read(garbled));
    }
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    for (const Sample& sample : Samples()) static_cast<void>(sample.read(noise));
    const absl::StatusOr<AgentOrder> order = DecodeOrder(noise);
    EXPECT_FALSE(order.ok()) << "nothing starts by chance";
  }
}

TEST(AgentMessagesTest, NumbersBeyondTheirBoundsAreNamed) {
  AgentOrder order = MakeOrder();
  order.size = 0;
  EXPECT_THAT(std::string(DecodeOrder(Encode(order)).status().message()), HasSubstr("no workers"));
  order = MakeOrder();
  order.first_index = 0x7fffffff;
  EXPECT_FALSE(DecodeOrder(Encode(order)).ok()) << "a launch index is an int32";
  EXPECT_FALSE(DecodeStaff(Encode(AgentStaff{})).ok());
  EXPECT_FALSE(DecodeStaff(Encode(AgentStaff{{65536}})).ok());
  order = MakeOrder();
  order.arguments.clear();
  EXPECT_THAT(std::string(DecodeOrder(Encode(order)).status().message()), HasSubstr("no command"));
  order = MakeOrder();
  order.environment = {"=x"};
  EXPECT_THAT(std::string(DecodeOrder(Encode(order)).status().message()), HasSubstr("a variable without a name"));
  order = MakeOrder();
  order.directory = std::string("/a\0b", 4);
  EXPECT_THAT(std::string(DecodeOrder(Encode(order)).status().message()), HasSubstr("a NUL in a text"));
  EXPECT_FALSE(DecodeSignal(Encode(AgentSignal{0, false})).ok());
  EXPECT_THAT(std::string(DecodeSignal(Encode(AgentSignal{65, false})).status().message()),
              HasSubstr("the number 65 where at most 64 is allowed"));
  EXPECT_FALSE(DecodeRefusal(Encode(AgentRefusal{absl::StatusCode::kOk, ""})).ok());
}

TEST(AgentMessagesTest, AnotherProtocolsGreetingIsStillRead) {
  const absl::StatusOr<AgentHello> hello = DecodeHello(Encode(AgentHello{kAgentProtocol + 1, "9.9.9"}) + "and more");
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->version, "9.9.9");
  EXPECT_FALSE(DecodeHello(Encode(AgentHello{kAgentProtocol, "9.9.9"}) + "and more").ok());
}

TEST(FrameReaderTest, FramesAreFoundHoweverTheyAreCut) {
  const std::string stream = EncodeFrame(FrameType::kOrder, std::string(1000, 'o')) +
                             EncodeFrame(FrameType::kFinish, "") + EncodeFrame(FrameType::kTaken, "abcd");
  for (size_t piece = 1; piece < 40; ++piece) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.Push(absl::string_view(stream).substr(at, piece));
      for (;;) {
        absl::StatusOr<std::optional<Frame>> frame = reader.Next();
        ASSERT_TRUE(frame.ok()) << frame.status();
        if (!frame->has_value()) break;
        frames.push_back(**frame);
      }
    }
    ASSERT_EQ(frames.size(), 3u) << piece;
    EXPECT_EQ(frames[0].message.size(), 1000u);
    EXPECT_EQ(frames[1].type, FrameType::kFinish);
    EXPECT_EQ(frames[2].message, "abcd");
  }
}

TEST(FrameReaderTest, AnUnknownTypeAndALengthBeyondItsBoundAreNamedAtOnce) {
  FrameReader unknown;
  unknown.Push(absl::string_view("\x01\0\0\0\x63", 5));
  EXPECT_EQ(unknown.Next().status().message(), "there is no frame of type 99");
  EXPECT_FALSE(unknown.Next().ok()) << "it stays so";
  FrameReader longer;
  longer.Push(absl::string_view("\xff\xff\xff\xff\x45", 5));
  EXPECT_THAT(std::string(longer.Next().status().message()), HasSubstr("and this one 4294967295"));
}

TEST(GreetingFinderTest, WhatALoginShellPrintsIsSkipped) {
  const std::string noise =
      "Welcome to node-3!\n\x01\x7f"
      "farandole agen";
  const std::string stream = noise + std::string(kAgentGreeting) + "rest";
  for (size_t piece = 1; piece < stream.size(); ++piece) {
    GreetingFinder finder;
    std::string rest;
    std::string after;
    bool is_found = false;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const std::string part = stream.substr(at, piece);
      if (is_found) {
        after += part;
      } else if (finder.Push(part, &rest)) {
        is_found = true;
        after = rest;
      }
    }
    EXPECT_TRUE(is_found) << piece;
    EXPECT_EQ(after, "rest") << piece;
    EXPECT_EQ(finder.seen(), noise);
  }
}

TEST(GreetingFinderTest, EndlessNoiseIsGivenUp) {
  GreetingFinder finder;
  std::string rest;
  EXPECT_FALSE(finder.Push(std::string(GreetingFinder::kMaxNoiseBytes, 'x'), &rest));
  EXPECT_FALSE(finder.is_hopeless());
  EXPECT_FALSE(finder.Push("x", &rest));
  EXPECT_TRUE(finder.is_hopeless());
}

}  // namespace
}  // namespace farandole::launcher
