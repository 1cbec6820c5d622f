#include "worker/order/hosts_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "worker/order/socket_stream.h"
#include "worker/order/test_relay.h"

namespace farandole {
namespace {

std::vector<int> All(int size) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Post PostNumber(int number) {
  Post post;
  post.slot = static_cast<uint32_t>(number);
  post.payload_bytes = static_cast<uint16_t>(number % (kInlineBytes + 1));
  std::fill(post.payload, post.payload + post.payload_bytes, static_cast<char>(number));
  return post;
}

Entry EntryNumber(int number) {
  Entry entry;
  entry.kind = Entry::Kind::kBatch;
  entry.slot = static_cast<uint32_t>(number);
  // Of every length in cells.
  entry.items.resize(static_cast<size_t>(number * 7 % 60));
  return entry;
}

Entry LeftEntry(int rank) {
  Entry entry;
  entry.kind = Entry::Kind::kLeft;
  entry.rank = rank;
  return entry;
}

// One rank on each of 1 to 20 hosts, and shapes with more: 20 hosts have one at the tree's third level, 40 many.
std::vector<std::vector<int>> Shapes() {
  std::vector<std::vector<int>> shapes;
  for (int hosts = 1; hosts <= 20; ++hosts) shapes.emplace_back(hosts, 1);
  shapes.push_back({3});
  shapes.push_back({2, 2});
  shapes.push_back({1, 3});
  shapes.push_back({3, 1, 2});
  shapes.push_back(std::vector<int>(40, 2));
  return shapes;
}

TEST(HostsChannelTest, LeadersFormATreeOfFanOut16) {
  const Hosts hosts = Hosts::WithSizes(std::vector<int>(20, 2));
  EXPECT_EQ(HostsChannel::PeersOf(hosts, 0).size(), 16u);
  EXPECT_EQ(HostsChannel::PeersOf(hosts, 2), (std::vector<int>{0, 34, 36, 38}));
  EXPECT_EQ(HostsChannel::PeersOf(hosts, 34), (std::vector<int>{2}));
  EXPECT_EQ(HostsChannel::PeersOf(hosts, 4), (std::vector<int>{0}));
  EXPECT_TRUE(HostsChannel::PeersOf(hosts, 3).empty());
}

TEST(HostsChannelTest, PostsOfAllRanksReachRankZeroInTheirOrder) {
  for (const std::vector<int>& sizes : Shapes()) {
    TestRelay epoch(sizes);
    std::vector<int> read(epoch.size(), 0);
    for (int posted = 0; posted < 200;) {
      for (int burst = posted % 7 + 1; burst > 0; --burst, ++posted) {
        for (int rank = 0; rank < epoch.size(); ++rank) {
          ASSERT_TRUE(epoch.channel(rank).TryPost(PostNumber(posted * 1000 + rank)));
        }
      }
      ASSERT_TRUE(epoch.RelayAll().ok());
      EXPECT_TRUE(epoch.channel(0).HasNews());
      for (int rank = 0; rank < epoch.size(); ++rank) {
        Post post;
        for (; epoch.channel(0).ReadPost(rank, &post); ++read[rank]) {
          const Post expected = PostNumber(read[rank] * 1000 + rank);
          ASSERT_EQ(post.slot, expected.slot);
          ASSERT_EQ(std::string(post.payload, post.payload_bytes),
                    std::string(expected.payload, expected.payload_bytes));
        }
        ASSERT_EQ(read[rank], posted);
      }
      EXPECT_FALSE(epoch.channel(0).HasNews());
    }
  }
}

TEST(HostsChannelTest, TheLogIsTheSameAtTheSamePlacesOnAllHosts) {
  for (const std::vector<int>& sizes : Shapes()) {
    TestRelay epoch(sizes);
    std::vector<uint64_t> sequences;
    std::vector<size_t> read(epoch.size(), 0);
    // Several times around the log.
    for (int number = 0; number < 3000;) {
      for (int burst = number % 90 + 1; burst > 0; --burst, ++number) {
        Entry entry = EntryNumber(number);
        ASSERT_TRUE(epoch.channel(0).TryAppend(entry, All(epoch.size())));
        sequences.push_back(entry.sequence);
      }
      ASSERT_TRUE(epoch.RelayAll().ok());
      for (int rank = 0; rank < epoch.size(); ++rank) {
        Entry entry;
        for (; epoch.channel(rank).ReadEntry(&entry); ++read[rank]) {
          ASSERT_EQ(entry.sequence, sequences[read[rank]]) << "rank " << rank;
          ASSERT_EQ(entry.slot, read[rank]);
          ASSERT_EQ(entry.items.size(), EntryNumber(static_cast<int>(entry.slot)).items.size());
        }
        ASSERT_EQ(read[rank], sequences.size()) << "rank " << rank;
      }
    }
  }
}

TEST(HostsChannelTest, ARankThatDoesNotReadStopsTheWriterAndNothingIsLost) {
  TestRelay epoch({1, 2, 1});
  const std::vector<int> all = All(4);
  constexpr int kSlow = 2;
  int appended = 0;
  std::vector<int> read(4, 0);
  Entry entry;
  const auto read_on = [&](int rank) {
    for (; epoch.channel(rank).ReadEntry(&entry); ++read[rank])
      ASSERT_EQ(entry.slot, static_cast<uint32_t>(read[rank]));
  };
  // The socket's buffers, the queues and the page hold what they hold.
  for (int idle = 0; idle < 3; ++idle) {
    for (Entry next = EntryNumber(appended); epoch.channel(0).TryAppend(next, all); next = EntryNumber(++appended)) {
      ASSERT_LT(appended, 1'000'000);
      idle = 0;
      for (const int rank : {0, 1, 3}) read_on(rank);
      ASSERT_TRUE(epoch.RelayAll().ok());
    }
    ASSERT_TRUE(epoch.RelayAll().ok());
  }
  EXPECT_EQ(read[kSlow], 0);
  while (read[kSlow] < appended) {
    for (int rank = 0; rank < 4; ++rank) read_on(rank);
    ASSERT_TRUE(epoch.RelayAll().ok());
  }
  Entry next = EntryNumber(appended);
  EXPECT_TRUE(epoch.channel(0).TryAppend(next, all));
}

TEST(HostsChannelTest, ARankZeroThatDoesNotReadStopsThePostersAndNothingIsLost) {
  TestRelay epoch({1, 2});
  std::vector<int> posted(3, 0);
  bool all_full = false;
  while (!all_full) {
    all_full = true;
    for (const int rank : {1, 2}) {
      while (epoch.channel(rank).TryPost(PostNumber(posted[rank]))) {
        ASSERT_LT(++posted[rank], 1'000'000);
        all_full = false;
      }
    }
    ASSERT_TRUE(epoch.RelayAll().ok());
  }
  // A leader that is stuck has no news, or its data thread would not sleep.
  EXPECT_FALSE(epoch.channel(1).HasNews());
  std::vector<int> read(3, 0);
  Post post;
  while (read[1] < posted[1] || read[2] < posted[2]) {
    for (const int rank : {1, 2}) {
      for (; epoch.channel(0).ReadPost(rank, &post); ++read[rank])
        ASSERT_EQ(post.slot, static_cast<uint32_t>(read[rank]));
    }
    ASSERT_TRUE(epoch.RelayAll().ok());
  }
  EXPECT_TRUE(epoch.channel(2).TryPost(PostNumber(0)));
}

TEST(HostsChannelTest, LeadersStayUntilAllWhomTheyServeHaveLeft) {
  // Host 1 has hosts 17 to 19 below it.
  TestRelay epoch(std::vector<int>(20, 2));
  const auto leave = [&](int rank) {
    Entry entry = LeftEntry(rank);
    ASSERT_TRUE(epoch.channel(0).TryAppend(entry, All(40)));
    ASSERT_TRUE(epoch.RelayAll().ok());
    for (int reader = 0; reader < 40; ++reader) {
      if (!epoch.Lives(reader)) continue;
      while (epoch.channel(reader).ReadEntry(&entry)) {
      }
    }
  };
  for (int rank = 2; rank < 39; ++rank) {
    leave(rank);
    EXPECT_EQ(epoch.channel(4).IsNeeded(), rank < 5);
    EXPECT_EQ(epoch.channel(34).IsNeeded(), rank < 35);
    EXPECT_TRUE(epoch.channel(2).IsNeeded());
    EXPECT_FALSE(epoch.channel(3).IsNeeded());
    for (const int asked : {0, 1, 2, 39}) {
      EXPECT_TRUE(epoch.channel(asked).HasLeft(rank));
      EXPECT_FALSE(epoch.channel(asked).HasLeft(39));
    }
  }
  leave(39);
  EXPECT_FALSE(epoch.channel(2).IsNeeded());
  EXPECT_FALSE(epoch.channel(38).IsNeeded());
  // A rank that has left may go; no peer reports it lost.
  epoch.Kill(38);
  epoch.Kill(2);
  ASSERT_TRUE(epoch.RelayAll().ok());
  EXPECT_TRUE(epoch.losses().empty());
  EXPECT_TRUE(epoch.channel(0).IsNeeded());
  leave(1);
  leave(0);
  EXPECT_FALSE(epoch.channel(0).IsNeeded());
}

TEST(HostsChannelTest, ALeadersDeathIsReportedByItsNeighboursInTheTreeOnce) {
  TestRelay epoch(std::vector<int>(20, 1));
  epoch.Kill(1);
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(epoch.RelayAll().ok());
  std::vector<int> reporters;
  for (const TestRelay::Loss& loss : epoch.losses()) {
    reporters.push_back(loss.reporter);
    EXPECT_EQ(loss.peer, 1);
  }
  EXPECT_EQ(reporters, (std::vector<int>{0, 17, 18, 19}));
  EXPECT_EQ(epoch.losses()[1].evidence, "its connection to rank 17 ended");
}

TEST(HostsChannelTest, ALeaderThatHasLeftIsMissedUntilThoseBelowItHaveHeardThatTheyHaveLeft) {
  // Rank 1 leads ranks 17 to 19. It has left; they have not.
  TestRelay epoch(std::vector<int>(20, 1));
  Entry entry = LeftEntry(1);
  ASSERT_TRUE(epoch.channel(0).TryAppend(entry, All(20)));
  ASSERT_TRUE(epoch.RelayAll().ok());
  for (int rank = 0; rank < 20; ++rank) ASSERT_TRUE(epoch.channel(rank).ReadEntry(&entry));
  epoch.Kill(1);
  ASSERT_TRUE(epoch.RelayAll().ok());
  std::vector<int> reporters;
  for (const TestRelay::Loss& loss : epoch.losses()) reporters.push_back(loss.reporter);
  EXPECT_EQ(reporters, (std::vector<int>{0, 17, 18, 19}));
}

TEST(HostsChannelTest, ARankThatDoesNotRelayRestsOnlyWhenItsSocketsWereLookedAt) {
  TestRelay epoch({1, 2});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  int told = 0;
  ASSERT_TRUE(epoch.sockets(2).Add(ends[0], [&](bool, bool) { ++told; }).ok());
  EXPECT_TRUE(epoch.channel(2).Rest());
  ASSERT_EQ(send(ends[1], "x", 1, 0), 1);
  EXPECT_FALSE(epoch.channel(2).Rest());
  EXPECT_EQ(told, 1);
  epoch.sockets(2).Remove(ends[0]);
  EXPECT_TRUE(epoch.channel(2).Rest());
  for (const int end : ends) close(end);
}

TEST(HostsChannelTest, AnEndReachesAllLeadersWithItsSentence) {
  const absl::Status end = absl::DeadlineExceededError("rank 18 is tired");
  TestRelay epoch(std::vector<int>(20, 1));
  std::vector<absl::Status> heard(20);
  epoch.channel(18).End(end);
  heard[18] = end;
  // As engines do: who learns of it passes it on and then is gone.
  epoch.Kill(18);
  for (int round = 0; round < 10; ++round) {
    for (int rank = 0; rank < 20; ++rank) {
      if (!heard[rank].ok()) continue;
      heard[rank] = epoch.channel(rank).Relay().status();
      if (heard[rank].ok()) continue;
      epoch.channel(rank).End(heard[rank]);
      epoch.Kill(rank);
    }
  }
  for (int rank = 0; rank < 20; ++rank) EXPECT_EQ(heard[rank], end) << rank;
  EXPECT_TRUE(epoch.losses().empty());
}

TEST(HostsChannelTest, ALeaderIsSummonedByItsRanksAndByWhatArrives) {
  TestRelay epoch({1, 2});
  const auto rest = [&](int rank) {
    epoch.channel(rank).doorbell().SetAttention(Attention::kUnconcerned);
    ASSERT_FALSE(*epoch.channel(rank).Relay());
    epoch.channel(rank).Rest();
  };
  const auto expect_rung = [&](int rank, uint32_t ticket) {
    for (int round = 0; round < 100 && epoch.channel(rank).doorbell().Ticket() == ticket; ++round) {
      epoch.channel(rank).doorbell().Sleep(ticket, Attention::kDataThreadAsleep, absl::Milliseconds(100));
    }
    EXPECT_NE(epoch.channel(rank).doorbell().Ticket(), ticket);
  };
  const uint32_t first = epoch.channel(1).doorbell().Ticket();
  const uint32_t zero = epoch.channel(0).doorbell().Ticket();
  rest(1);
  rest(0);
  ASSERT_TRUE(epoch.channel(2).TryPost(PostNumber(1)));
  expect_rung(1, first);
  EXPECT_TRUE(epoch.channel(1).HasNews());
  EXPECT_TRUE(*epoch.channel(1).Relay());
  expect_rung(0, zero);
  const uint32_t second = epoch.channel(1).doorbell().Ticket();
  rest(1);
  Entry entry = EntryNumber(1);
  ASSERT_TRUE(epoch.channel(0).TryAppend(entry, All(3)));
  expect_rung(1, second);
}

// Rank 1's channel, with a socket in place of rank 0 that says what it likes.
class LinkTest : public ::testing::Test {
 protected:
  LinkTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    peer_ = ends[0];
    std::vector<std::unique_ptr<RelayLink>> links;
    links.push_back(std::make_unique<RelayLink>(0, *SocketStream::Open(ends[1], &epoch_.sockets(1))));
    channel_ = std::make_unique<HostsChannel>(epoch_.hosts(), 1, &epoch_.page(1), &epoch_.sockets(1), std::move(links),
                                              std::vector<std::string>{"rank 0 (pid 7 on a)", "rank 1"},
                                              [](int, const std::string&) {});
  }
  ~LinkTest() override { close(peer_); }
  void Say(const std::string& bytes) {
    ASSERT_EQ(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  TestRelay epoch_{{1, 1}};
  int peer_ = -1;
  std::unique_ptr<HostsChannel> channel_;
};

TEST_F(LinkTest, BytesThatAreNoFrameEndTheEpochWithTheSendersName) {
  Say("GET / HTTP/1.1\r\n\r\n");
  const absl::Status status = channel_->Relay().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(status.message(), "the connection to rank 0 (pid 7 on a) makes no sense"));
}

TEST_F(LinkTest, AFrameInTheWrongDirectionEndsTheEpoch) {
  std::string bytes;
  AppendPost(1, PostNumber(1), &bytes);
  Say(bytes);
  EXPECT_TRUE(
      absl::StrContains(channel_->Relay().status().message(), "it sent something else than a log entry or an end"));
}

TEST_F(LinkTest, AnEntryAtAnotherPlaceEndsTheEpoch) {
  Entry entry = EntryNumber(1);
  entry.sequence = 2;
  std::string bytes;
  AppendEntry(entry, &bytes);
  Say(bytes);
  EXPECT_TRUE(absl::StrContains(channel_->Relay().status().message(), "entry 2 where this host's has 1"));
}

TEST_F(LinkTest, FramesThatComeInPiecesAreTakenWhenTheyAreWhole) {
  std::string bytes;
  for (int number = 0; number < 3; ++number) {
    Entry entry = EntryNumber(0);
    entry.sequence = static_cast<uint64_t>(number) + 1;
    AppendEntry(entry, &bytes);
  }
  for (const char byte : bytes) {
    Say(std::string(1, byte));
    ASSERT_TRUE(channel_->Relay().ok());
  }
  Entry entry;
  for (int number = 0; number < 3; ++number) EXPECT_TRUE(channel_->ReadEntry(&entry));
  EXPECT_FALSE(channel_->ReadEntry(&entry));
}

}  // namespace
}  // namespace farandole
