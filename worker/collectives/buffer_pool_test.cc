#include "worker/collectives/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(BufferPoolTest, ABufferOfAboutTheSameSizeIsUsedAgain) {
  BufferPool pool(1 << 20);
  char* first = nullptr;
  {
    const BufferPool::Lease lease = pool.Take(10000);
    first = lease.data();
    std::memset(first, 1, 10000);
  }
  EXPECT_EQ(pool.kept_bytes(), 16384u);
  const BufferPool::Lease again = pool.Take(12000);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

TEST(BufferPoolTest, LeasesDoNotShareMemory) {
  BufferPool pool(1 << 20);
  const BufferPool::Lease first = pool.Take(100);
  const BufferPool::Lease second = pool.Take(100);
  EXPECT_NE(first.data(), second.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0u);
}

TEST(BufferPoolTest, NoMoreIsKeptThanStated) {
  BufferPool pool(8192);
  {
    const BufferPool::Lease first = pool.Take(4096);
    const BufferPool::Lease second = pool.Take(4096);
    const BufferPool::Lease third = pool.Take(4096);
  }
  EXPECT_EQ(pool.kept_bytes(), 8192u);
}

TEST(BufferPoolTest, BuffersOfSizesThatAreOverMakeRoom) {
  BufferPool pool(32768);
  {
    const BufferPool::Lease first = pool.Take(16384);
    const BufferPool::Lease second = pool.Take(16384);
  }
  // The model has changed: its batches are smaller now.
  const char* small = nullptr;
  {
    const BufferPool::Lease lease = pool.Take(8192);
    small = lease.data();
  }
  EXPECT_EQ(pool.kept_bytes(), 16384u + 8192u);
  EXPECT_EQ(pool.Take(8192).data(), small);
}

TEST(BufferPoolTest, WhatIsLargerThanTheBoundDropsNothing) {
  BufferPool pool(8192);
  pool.Take(8192);
  pool.Take(16384);
  EXPECT_EQ(pool.kept_bytes(), 8192u);
}

TEST(BufferPoolTest, AMovedLeaseComesBackOnce) {
  BufferPool pool(1 << 20);
  {
    BufferPool::Lease first = pool.Take(1);
    BufferPool::Lease second;
    second = std::move(first);
    const BufferPool::Lease third(std::move(second));
    EXPECT_NE(third.data(), nullptr);
  }
  EXPECT_EQ(pool.kept_bytes(), 4096u);
}

TEST(BufferPoolTest, NothingTakesNoMemory) {
  BufferPool pool(1 << 20);
  EXPECT_EQ(pool.Take(0).data(), nullptr);
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

}  // namespace
}  // namespace farandole
