// The completer in a job of size 1, with the worker library that programs load: under TSan, too.
#include "sdk/adapter/completer.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::adapter {
namespace {

// Collects the deliveries of calls.
class Deliveries {
 public:
  void Add(int number, int code) {
    std::lock_guard<std::mutex> lock(mutex_);
    numbers_.push_back(number);
    codes_.push_back(code);
    changed_.notify_all();
  }
  // The numbers of the delivered calls in their order, when there are so many.
  std::vector<int> Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return numbers_.size() >= count; });
    return numbers_;
  }
  std::vector<int> codes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return codes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> numbers_;
  std::vector<int> codes_;
};

// An allreduce of one float, which it expects to keep.
class Reduction : public Call {
 public:
  Reduction(int number, std::string name, Deliveries* deliveries, bool waits = false)
      : number_(number), value_(static_cast<float>(number)), deliveries_(*deliveries) {
    terms_.name = std::move(name);
    terms_.reduce_op = FARANDOLE_SUM;
    terms_.waits = waits;
    tensors_.push_back({&value_, &value_, FARANDOLE_F32, {1}, 0});
  }
  // Has no such root.
  void MakeWrong() {
    terms_.op = Op::kBroadcast;
    terms_.root = 7;
  }
  const Terms& terms() const override { return terms_; }
  void Deliver() override {
    EXPECT_TRUE(!Settle() || value_ == static_cast<float>(number_));
    Release();
    deliveries_.Add(number_, code());
  }

 private:
  const int number_;
  float value_;
  Terms terms_;
  Deliveries& deliveries_;
};

class CompleterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* const path = "worker/libfarandole.so";
    ASSERT_EQ(farandole_adapter_connect(path, 0), nullptr) << farandole_adapter_connect(path, 0);
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto init = reinterpret_cast<decltype(&farandole_init)>(dlsym(library, "farandole_init"));
    ASSERT_EQ(init(nullptr, nullptr), FARANDOLE_OK) << Worker().last_error();
    shutdown_ = reinterpret_cast<decltype(&farandole_shutdown)>(dlsym(library, "farandole_shutdown"));
  }
  static void TearDownTestSuite() { EXPECT_EQ(shutdown_(nullptr), FARANDOLE_OK); }

  std::unique_ptr<Reduction> Make(int number, const std::string& name, bool waits = false) {
    return std::make_unique<Reduction>(number, name, &deliveries_, waits);
  }
  std::unique_ptr<Reduction> MakeReserved(int number, const std::string& name) {
    std::unique_ptr<Reduction> call = Make(number, name);
    Completer::Get().Reserve(call.get());
    return call;
  }

  Deliveries deliveries_;
  static inline decltype(&farandole_shutdown) shutdown_ = nullptr;
};

TEST_F(CompleterTest, ReservedCallsOfANameRunInTheirOrder) {
  auto first = MakeReserved(1, "name"), second = MakeReserved(2, "name"), third = MakeReserved(3, "name");
  Completer::Get().Run(std::move(third));
  Completer::Get().Run(std::move(second));
  // Another name does not wait for them.
  Completer::Get().Run(Make(4, "other"));
  EXPECT_EQ(deliveries_.Await(1), std::vector<int>({4}));
  Completer::Get().Run(std::move(first));
  EXPECT_EQ(deliveries_.Await(4), std::vector<int>({4, 1, 2, 3}));
}

TEST_F(CompleterTest, ACallWithoutAPlaceComesBehindThoseThatHaveOne) {
  auto first = MakeReserved(1, "name");
  Completer::Get().Run(Make(2, "name"));
  Completer::Get().Run(std::move(first));
  EXPECT_EQ(deliveries_.Await(2), std::vector<int>({1, 2}));
}

TEST_F(CompleterTest, ACallThatIsSkippedHoldsNoneUp) {
  auto first = MakeReserved(1, "name"), second = MakeReserved(2, "name"), third = MakeReserved(3, "name");
  Completer::Get().Run(std::move(third));
  Completer::Get().Skip(std::move(second));
  Completer::Get().Skip(std::move(first));
  EXPECT_EQ(deliveries_.Await(1), std::vector<int>({3}));
}

TEST_F(CompleterTest, ACallThatIsRefusedIsDeliveredAndTheNextOneRuns) {
  auto first = MakeReserved(1, "name"), second = MakeReserved(2, "name");
  first->Fail(FARANDOLE_INTERNAL, "it has failed before");
  Completer::Get().Run(std::move(second));
  Completer::Get().Run(std::move(first));
  auto wrong = Make(3, "wrong");
  wrong->MakeWrong();
  Completer::Get().Run(std::move(wrong));
  EXPECT_EQ(deliveries_.Await(3).size(), 3u);
  std::vector<int> codes = deliveries_.codes();
  std::sort(codes.begin(), codes.end());
  EXPECT_EQ(codes, std::vector<int>({0, FARANDOLE_INVALID_ARGUMENT, FARANDOLE_INTERNAL}));
}

TEST_F(CompleterTest, ACallerThatWaitsHasItsResultOnReturn) {
  Completer::Get().Run(Make(1, "waits", /*waits=*/true));
  EXPECT_EQ(deliveries_.codes(), std::vector<int>({0}));
}

TEST_F(CompleterTest, ThreadsShareNames) {
  constexpr int kThreads = 4, kCalls = 100;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int call = 0; call < kCalls; ++call) {
        const int number = thread * kCalls + call;
        Completer::Get().Run(Make(number, call % 3 == 0 ? "" : std::to_string(call % 7), call % 5 == 0));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> numbers = deliveries_.Await(kThreads * kCalls);
  std::sort(numbers.begin(), numbers.end());
  for (int number = 0; number < kThreads * kCalls; ++number) EXPECT_EQ(numbers[static_cast<size_t>(number)], number);
}

}  // namespace
}  // namespace farandole::adapter
