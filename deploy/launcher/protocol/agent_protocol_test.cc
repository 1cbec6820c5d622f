// Frames and messages between launcher and agent: one reads what the other writes, and refuses everything else.
#include <optional>
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
  for (const char* argument : {"python", "train.py", "--lr=0.1; rm -rf $HOME", ""}) order.add_arguments(argument);
  for (const char* variable : {"PATH=/bin", "EMPTY=", "ODD=a=b\nc", "LATIN=\xe9"}) order.add_environment(variable);
  order.set_directory("/home/me/my project");
  order.set_host("user@node-b");
  SetShares({{"node-a", 0, 6, false}, {"user@node-b", 6, 2, false}}, &order);
  order.set_size_here(2);
  order.set_first_index(65536);
  order.set_is_elastic(true);
  order.set_outlives_launcher(true);
  order.set_size(8);
  order.set_job("train");
  order.set_join_timeout_ms(1500);
  order.add_coordinators("10.0.0.1:7070");
  order.add_coordinators("[fd00::1]:7070");
  order.set_ca_pem("-----BEGIN CERTIFICATE-----\n");
  order.set_token("secret");
  return order;
}

// Why Decode refuses `message`; empty: it does not.
template <typename Message>
std::string Refusal(const Message& message) {
  return std::string(Decode<Message>(message.SerializeAsString()).status().message());
}

template <typename Message>
absl::Status Read(absl::string_view bytes) {
  return Decode<Message>(bytes).status();
}

const std::vector<absl::Status (*)(absl::string_view)>& Readers() {
  static const auto* const readers = new std::vector<absl::Status (*)(absl::string_view)>{
      Read<AgentHello>,  Read<AgentOrder>,     Read<AgentReady>,   Read<AgentGo>,
      Read<AgentSignal>, Read<AgentTerminals>, Read<AgentRefused>, Read<AgentStarted>,
      Read<AgentOutput>, Read<AgentEnded>,     Read<AgentTaken>};
  return *readers;
}

TEST(AgentMessagesTest, AnOrderArrivesAsItWasGiven) {
  const AgentOrder given = MakeOrder();
  const absl::StatusOr<AgentOrder> order = Decode<AgentOrder>(given.SerializeAsString());
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->SerializeAsString(), given.SerializeAsString());
  EXPECT_EQ(order->environment(3), "LATIN=\xe9") << "variables need not be UTF-8";
  const std::vector<HostShare> shares = SharesOf(*order);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[1].host, "user@node-b");
  EXPECT_EQ(shares[1].first, 6);
  EXPECT_EQ(shares[1].count, 2);
}

TEST(AgentMessagesTest, TheLaunchersOwnTypesComeBackAsTheyWere) {
  WorkerEnd end;
  end.signal = 9;
  const AgentEnded ended = ToMessage(65535, end);
  EXPECT_EQ(ended.worker(), 65535u);
  EXPECT_EQ(FromMessage(ended).signal, 9);
  EXPECT_EQ(FromMessage(ended).code, 0);
  const WorkerTerminals terminals = FromMessage(ToMessage(WorkerTerminals{{80, 25}, {132, 50}}));
  EXPECT_EQ(terminals.out.columns, 80);
  EXPECT_EQ(terminals.out.rows, 25);
  EXPECT_EQ(terminals.err.columns, 132);
  EXPECT_EQ(terminals.err.rows, 50);
  const AgentRefused refused = ToMessage(absl::NotFoundError("no"));
  EXPECT_EQ(refused.code(), static_cast<uint32_t>(absl::StatusCode::kNotFound));
  EXPECT_LE(ToMessage(absl::NotFoundError(std::string(kMaxSmallBytes, 'x'))).ByteSizeLong(), kMaxSmallBytes);
}

TEST(AgentMessagesTest, TheLargestOutputFitsIntoAFrame) {
  AgentOutput output;
  output.set_worker(65535);
  output.set_is_stderr(true);
  output.set_text(std::string(kMaxOutputBytes, '\xff'));
  FrameReader reader;
  reader.Push(EncodeFrame(FrameType::kOutput, output.SerializeAsString()));
  const absl::StatusOr<std::optional<Frame>> frame = reader.Next();
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(Decode<AgentOutput>((*frame)->message)->text(), output.text());
}

TEST(AgentMessagesTest, GarbageIsRefusedOrReadWithinBounds) {
  std::minstd_rand random(20261121);
  const std::string order = MakeOrder().SerializeAsString();
  for (int round = 0; round < 20000; ++round) {
    std::string garbled = order;
    for (int i = 0; i < 3; ++i) garbled[random() % garbled.size()] = static_cast<char>(random());
    static_cast<void>(Decode<AgentOrder>(garbled));
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    for (const auto read : Readers()) static_cast<void>(read(noise));
    EXPECT_FALSE(Decode<AgentOrder>(noise).ok()) << "nothing starts by chance";
  }
  EXPECT_THAT(std::string(Decode<AgentOrder>("\xff").status().message()), HasSubstr("these 1 bytes are no AgentOrder"));
}

TEST(AgentMessagesTest, NumbersBeyondTheirBoundsAreNamed) {
  AgentOrder order = MakeOrder();
  order.set_size(0);
  EXPECT_THAT(Refusal(order), HasSubstr("no workers"));
  order = MakeOrder();
  order.set_first_index(0x7fffffff);
  EXPECT_THAT(Refusal(order), HasSubstr("the number 2147483647 where at most")) << "a launch index is an int32";
  order = MakeOrder();
  order.add_shares()->set_workers(65536);
  EXPECT_THAT(Refusal(order), HasSubstr("the number 65544 where at most 65536 is allowed"));
  AgentGo go;
  EXPECT_THAT(Refusal(go), HasSubstr("no workers"));
  go.add_workers(65536);
  EXPECT_THAT(Refusal(go), HasSubstr("the number 65536 where at most 65535 is allowed"));
  AgentSignal signal;
  EXPECT_THAT(Refusal(signal), HasSubstr("the number 0"));
  signal.set_signal(65);
  EXPECT_THAT(Refusal(signal), HasSubstr("the number 65 where at most 64 is allowed"));
  signal.set_signal(15);
  EXPECT_EQ(Refusal(signal), "");
  AgentEnded ended;
  ended.set_code(256);
  EXPECT_THAT(Refusal(ended), HasSubstr("the number 256 where at most 255 is allowed"));
  AgentTerminals terminals;
  terminals.mutable_err()->set_rows(65536);
  EXPECT_THAT(Refusal(terminals), HasSubstr("the number 65536"));
  EXPECT_THAT(Refusal(AgentRefused()), HasSubstr("the code 0"));
}

TEST(AgentMessagesTest, WhatTheSystemCouldNotReadIsRefused) {
  AgentOrder order = MakeOrder();
  order.clear_arguments();
  EXPECT_THAT(Refusal(order), HasSubstr("no command"));
  order = MakeOrder();
  order.add_environment("=x");
  EXPECT_THAT(Refusal(order), HasSubstr("a variable without a name"));
  order = MakeOrder();
  order.set_directory(std::string("/a\0b", 4));
  EXPECT_THAT(Refusal(order), HasSubstr("a NUL in a text"));
  order = MakeOrder();
  order.add_coordinators(std::string("a\0b", 3));
  EXPECT_THAT(Refusal(order), HasSubstr("a NUL in a text"));
}

TEST(AgentMessagesTest, AnotherProtocolsGreetingIsStillRead) {
  AgentHello hello;
  hello.set_protocol(kAgentProtocol + 1);
  hello.set_version("9.9.9");
  // A field that this protocol does not have.
  const absl::StatusOr<AgentHello> read = Decode<AgentHello>(hello.SerializeAsString() + "\x1a\x03new");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->version(), "9.9.9");
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
