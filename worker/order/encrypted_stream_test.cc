#include "worker/order/encrypted_stream.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// One way of a connection that takes and gives a few bytes at a time.
struct Way {
  std::string bytes;
  bool has_ended = false;
};

class WayStream final : public RelayStream {
 public:
  WayStream(Way* out, Way* in, size_t most) : out_(out), in_(in), most_(most) {}
  absl::StatusOr<size_t> Send(absl::string_view bytes) override {
    const size_t taken = std::min(bytes.size(), out_->bytes.size() < 3 * most_ ? most_ : 0);
    out_->bytes.append(bytes.data(), taken);
    return taken;
  }
  absl::StatusOr<size_t> Receive(char* to, size_t most) override {
    if (in_->bytes.empty() && in_->has_ended) return absl::UnavailableError("ended");
    const size_t got = std::min({most, most_, in_->bytes.size()});
    in_->bytes.copy(to, got);
    in_->bytes.erase(0, got);
    return got;
  }
  void WantRead(bool) override {}
  void WantWrite(bool) override {}

 private:
  Way* const out_;
  Way* const in_;
  const size_t most_;
};

// The two ends of a connection.
class EncryptedStreamTest : public ::testing::Test {
 protected:
  EncryptedStreamTest() {
    ConnectionSecrets secrets;
    secrets.send.fill('s');
    secrets.receive.fill('r');
    first_ = std::make_unique<EncryptedStream>(std::make_unique<WayStream>(&there_, &back_, 1000), secrets);
    std::swap(secrets.send, secrets.receive);
    second_ = std::make_unique<EncryptedStream>(std::make_unique<WayStream>(&back_, &there_, 700), secrets);
  }

  Way there_, back_;
  std::unique_ptr<EncryptedStream> first_, second_;
};

TEST_F(EncryptedStreamTest, BytesArriveInOrderWhateverTheSystemTakes) {
  std::mt19937 random(7);
  std::string sent(300'000, ' ');
  for (char& c : sent) c = static_cast<char>(random());
  std::string received, waiting = sent;
  std::string room(5000, ' ');
  for (int idle = 0; received.size() < sent.size() && idle < 100; ++idle) {
    const absl::StatusOr<size_t> taken = first_->Send(absl::string_view(waiting).substr(0, 90'000));
    ASSERT_TRUE(taken.ok()) << taken.status();
    waiting.erase(0, *taken);
    const absl::StatusOr<size_t> got = second_->Receive(room.data(), 1 + random() % room.size());
    ASSERT_TRUE(got.ok()) << got.status();
    received.append(room, 0, *got);
    if (*taken + *got > 0 || !there_.bytes.empty()) idle = 0;
  }
  EXPECT_TRUE(received == sent);
  EXPECT_TRUE(waiting.empty());
}

TEST_F(EncryptedStreamTest, BytesCountAsTakenWhenTheirRecordHasGone) {
  const std::string text(5000, 'x');
  EXPECT_EQ(*first_->Send(text), 0u);
  EXPECT_EQ(there_.bytes.size(), 1000u);
  EXPECT_FALSE(absl::StrContains(there_.bytes, "xxx"));
}

TEST_F(EncryptedStreamTest, WhatWasChangedEndsTheStream) {
  ASSERT_EQ(*first_->Send("before"), 6u);
  ASSERT_EQ(*first_->Send("changed"), 7u);
  there_.bytes.back() = static_cast<char>(there_.bytes.back() ^ 1);
  char room[100];
  const absl::StatusOr<size_t> before = second_->Receive(room, sizeof(room));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(std::string(room, *before), "before");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(second_->Receive(room, sizeof(room)).status(),
              absl::UnavailableError("broke: its record 1, of 7 bytes, does not verify: the bytes were changed on the "
                                     "way, left out, or sent twice or in another order"));
  }
}

TEST_F(EncryptedStreamTest, WhatCameBeforeTheEndIsReceived) {
  ASSERT_EQ(*first_->Send("last words"), 10u);
  there_.has_ended = true;
  char room[100];
  EXPECT_EQ(*second_->Receive(room, 4), 4u);
  EXPECT_EQ(*second_->Receive(room, sizeof(room)), 6u);
  EXPECT_EQ(second_->Receive(room, sizeof(room)).status(), absl::UnavailableError("ended"));
}

}  // namespace
}  // namespace farandole
