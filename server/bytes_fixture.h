#ifndef FARANDOLE_SERVER_BYTES_FIXTURE_H_
#define FARANDOLE_SERVER_BYTES_FIXTURE_H_

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "farandole/v1/worker.pb.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"

namespace farandole {

// A coordinator whose metrics say what its tenants hold in memory, and workers that send much.
class BytesFixture : public CoordinatorFixture {
 protected:
  BytesFixture() { options_.http = "127.0.0.1:0"; }

  // The value of a row of /metrics, or -1.
  double Metric(const std::string& row) const {
    const std::string text = HttpGet(coordinator_->http_address(), "/metrics", coordinator_->token()).body();
    const size_t at = text.find(row + " ");
    double value = -1;
    if (at == std::string::npos) return value;
    const size_t begin = at + row.size() + 1;
    EXPECT_TRUE(absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &value)) << row;
    return value;
  }
  static std::string Held(const std::string& tenant, const std::string& kind) {
    return absl::StrCat("farandole_held_bytes{kind=\"", kind, "\",tenant=\"", tenant, "\"}");
  }

  // States a known name so often, and reads the answers: how many came, and how long it took.
  static std::pair<int, absl::Duration> Exchange(TestWorker& worker, int times) {
    const absl::Time begin = SteadyNow();
    for (int i = 0; i < times; ++i) EXPECT_TRUE(worker.Send(worker.ReadyFor("known", {4, 8})));
    int answers = 0;
    for (int i = 0; i < times; ++i) {
      answers += worker.Await([](const v1::CoordinatorMessage& one) { return one.has_slot_assigned(); }).ok() ? 1 : 0;
    }
    return {answers, SteadyNow() - begin};
  }

  // A tensor of as many shapes; each takes some 60 bytes in memory.
  static v1::WorkerMessage LargeReady(const TestWorker& worker, const std::string& name, int shapes) {
    v1::WorkerMessage message = worker.ReadyFor(name, {});
    for (int i = 0; i < shapes; ++i) message.mutable_ready()->add_grouped_shapes()->add_dims(i);
    return message;
  }
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_FIXTURE_H_
