#include "web/writer/reply_writer.h"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

TEST(ReplyWriterTest, OneReplyOfATenantIsWrittenAtATimeInTheirOrder) {
  std::promise<void> done;
  std::atomic<int> under_way{0};
  std::vector<int> order;
  ReplyWriter writer(2);
  for (int i = 0; i < 100; ++i) {
    writer.Add("team", [&, i] {
      EXPECT_EQ(++under_way, 1);
      order.push_back(i);
      --under_way;
      if (i == 99) done.set_value();
    });
  }
  done.get_future().wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(ReplyWriterTest, AnotherTenantDoesNotWaitForALongReplyNorForMany) {
  std::promise<void> begun, other, end;
  ReplyWriter writer(2);
  writer.Add("greedy", [&] {
    begun.set_value();
    end.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 1000; ++i) writer.Add("greedy", [] {});
  writer.Add("quiet", [&] { other.set_value(); });
  other.get_future().wait();
  end.set_value();
}

TEST(ReplyWriterTest, TenantsTakeTurns) {
  std::promise<void> begun[2], end[2], done;
  std::mutex mutex;
  std::vector<std::string> order;
  ReplyWriter writer(2);
  // Both threads have something to do while the others are added.
  for (int i = 0; i < 2; ++i) {
    writer.Add(i == 0 ? "a" : "b", [&, i] {
      begun[i].set_value();
      end[i].get_future().wait();
    });
  }
  for (std::promise<void>& one : begun) one.get_future().wait();
  for (int i = 0; i < 3; ++i) {
    for (const std::string tenant : {"a", "c"}) {
      writer.Add(tenant, [&, tenant] {
        const std::lock_guard<std::mutex> lock(mutex);
        order.push_back(tenant);
        if (order.size() == 6) done.set_value();
      });
    }
  }
  // One thread writes them all.
  end[0].set_value();
  done.get_future().wait();
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_THAT(order, ElementsAre("c", "a", "c", "a", "c", "a"));
  end[1].set_value();
}

TEST(ReplyWriterTest, WhatWaitsAtItsEndIsDropped) {
  std::promise<void> begun, end;
  std::atomic<int> written{0};
  auto held = std::make_shared<int>(0);
  {
    auto writer = std::make_unique<ReplyWriter>(2);
    writer->Add("team", [&] {
      begun.set_value();
      end.get_future().wait();
    });
    begun.get_future().wait();
    writer->Add("team", [&written, held] { ++written; });
    std::promise<void> ending;
    std::thread ends([&] {
      ending.set_value();
      writer.reset();
    });
    ending.get_future().wait();
    end.set_value();
    ends.join();
  }
  EXPECT_LE(written, 1);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace farandole
