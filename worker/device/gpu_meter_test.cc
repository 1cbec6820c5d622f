#include "worker/device/gpu_meter.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr std::array<uint8_t, 16> kUuid = {0x6c, 0x1d, 0x6f, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
constexpr absl::Duration kSoon = absl::Milliseconds(1);
constexpr absl::Duration kPatience = absl::Seconds(30);

// NVIDIA's library on a machine with one GPU, which threads may still ask when a test is over.
struct FakeNvml {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_part = false;
  bool is_lost = false;
  bool hangs = false;
  unsigned busy = 0;
  int misses = 0;
  int reads = 0;
};
FakeNvml fake;

int Find(const char* uuid, NvmlDevice* device) {
  const std::lock_guard<std::mutex> lock(fake.mutex);
  *device = reinterpret_cast<NvmlDevice>(&fake);
  if (uuid == NvmlUuid(fake.is_part ? "MIG" : "GPU", kUuid)) return 0;
  ++fake.misses;
  fake.changed.notify_all();
  return 6;
}

int ReadMemory(NvmlDevice, NvmlMemory* memory) {
  std::unique_lock<std::mutex> lock(fake.mutex);
  ++fake.reads;
  fake.changed.notify_all();
  fake.changed.wait(lock, [] { return !fake.hangs; });
  *memory = {80, 30, 50};
  return fake.is_lost ? 15 : 0;
}

int ReadUtilization(NvmlDevice, NvmlUtilization* utilization) {
  const std::lock_guard<std::mutex> lock(fake.mutex);
  utilization->gpu = fake.busy;
  return fake.is_part ? kNvmlNotSupported : 0;
}

const NvmlLibrary* Fake() {
  static const NvmlLibrary library = {[] { return 0; },
                                      [](int) { return "GPU is lost"; },
                                      Find,
                                      [](NvmlDevice, char* name, unsigned length) {
                                        std::strncpy(name, "NVIDIA H100", length);
                                        return 0;
                                      },
                                      ReadMemory,
                                      ReadUtilization};
  return &library;
}

class GpuMeterTest : public ::testing::Test {
 protected:
  ~GpuMeterTest() override {
    const std::lock_guard<std::mutex> lock(fake.mutex);
    fake.is_part = fake.is_lost = fake.hangs = false;
    fake.busy = 0;
    fake.changed.notify_all();
  }

  // A thread of a test before may still ask.
  template <typename Value>
  static void Set(Value FakeNvml::*field, Value value) {
    const std::lock_guard<std::mutex> lock(fake.mutex);
    fake.*field = value;
  }
  // Waits until `counter` has grown by `times`.
  static void Await(int FakeNvml::*counter, int times) {
    std::unique_lock<std::mutex> lock(fake.mutex);
    const auto has_grown = [&, before = fake.*counter] { return fake.*counter >= before + times; };
    EXPECT_TRUE(fake.changed.wait_for(lock, absl::ToChronoSeconds(kPatience), has_grown));
  }
  // A sample that was read after the call.
  static GpuMeter::Sample Next(GpuMeter& meter) {
    Await(&FakeNvml::reads, 3);
    return meter.Take().value_or(GpuMeter::Sample());
  }
};

TEST_F(GpuMeterTest, UuidsAreWrittenAsTheManagementLibraryHasThem) {
  EXPECT_EQ(NvmlUuid("GPU", kUuid), "GPU-6c1d6fcd-0102-0304-0506-0708090a0b0c");
}

TEST_F(GpuMeterTest, SamplesAreTakenAgainAndAgain) {
  Set(&FakeNvml::busy, 40u);
  GpuMeter meter(Fake, kUuid, kSoon);
  GpuMeter::Sample sample = Next(meter);
  EXPECT_EQ(sample.name, "NVIDIA H100");
  EXPECT_EQ(sample.busy_percent, 40u);
  EXPECT_EQ(sample.memory_used, 50u);
  EXPECT_EQ(sample.memory_total, 80u);
  Set(&FakeNvml::busy, 90u);
  EXPECT_EQ(Next(meter).busy_percent, 90u);
}

TEST_F(GpuMeterTest, ASampleIsGivenOnceAndNobodyWaitsForADriverThatHangs) {
  GpuMeter meter(Fake, kUuid, kSoon);
  Next(meter);
  Set(&FakeNvml::hangs, true);
  Await(&FakeNvml::reads, 1);
  meter.Take();
  EXPECT_FALSE(meter.Take().has_value());
}

TEST_F(GpuMeterTest, APartOfAGpuDoesNotTellHowBusyItIs) {
  Set(&FakeNvml::is_part, true);
  GpuMeter meter(Fake, kUuid, kSoon);
  const GpuMeter::Sample sample = Next(meter);
  EXPECT_EQ(sample.busy_percent, std::nullopt);
  EXPECT_EQ(sample.memory_total, 80u);
}

TEST_F(GpuMeterTest, AGpuThatIsLostGivesNothingUntilItIsBack) {
  Set(&FakeNvml::is_lost, true);
  GpuMeter meter(Fake, kUuid, kSoon);
  Await(&FakeNvml::reads, 3);
  EXPECT_FALSE(meter.Take().has_value());
  Set(&FakeNvml::is_lost, false);
  EXPECT_EQ(Next(meter).memory_total, 80u);
}

TEST_F(GpuMeterTest, WhatIsNotThereIsNotAsked) {
  GpuMeter none([] { return absl::UnavailableError("there is no libnvidia-ml.so.1"); }, kUuid, kSoon);
  std::array<uint8_t, 16> other = kUuid;
  other[0] = 0;
  Set(&FakeNvml::misses, 0);
  GpuMeter unknown(Fake, other, kSoon);
  {
    std::unique_lock<std::mutex> lock(fake.mutex);
    // By both of its possible names.
    EXPECT_TRUE(fake.changed.wait_for(lock, absl::ToChronoSeconds(kPatience), [] { return fake.misses == 2; }));
  }
  EXPECT_FALSE(none.Take().has_value() || unknown.Take().has_value());
}

}  // namespace
}  // namespace farandole
