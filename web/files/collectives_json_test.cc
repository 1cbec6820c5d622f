#include "web/files/collectives_json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

TEST(CollectivesJsonTest, EachTensorHasItsCostAndWhoCameLast) {
  v1::SurveyCollectivesResponse answer;
  answer.set_epoch(3);
  answer.set_size(4);
  answer.set_answered(2);
  answer.set_found(9);
  answer.set_waited_us(4'500'000);
  v1::CollectiveCost* const cost = answer.add_costs();
  cost->set_name("grad");
  cost->set_op(v1::OP_TYPE_REDUCESCATTER);
  cost->set_bytes(1 << 20);
  cost->set_waited_us(1'500);
  cost->set_mean_wait_us(0.25);
  cost->set_bus_bytes_per_second(2.5e9);
  cost->set_compared(64);
  cost->add_last()->set_rank(2);
  cost->mutable_last(0)->set_times(61);
  for (const uint32_t rank : {1, 3}) {
    answer.add_silent()->set_rank(rank);
    answer.mutable_silent()->rbegin()->set_silence("it is stopped");
  }
  const Json json = CollectivesJson(answer);
  EXPECT_EQ(json["state"], "asked");
  EXPECT_EQ(json["waited_ms"], 4500);
  EXPECT_EQ(json["found"], 9);
  const Json& row = json["collectives"][0];
  EXPECT_EQ(row["name"], "grad");
  EXPECT_EQ(row["op"], "reducescatter");
  EXPECT_EQ(row["waited_ms"], 1.5);
  EXPECT_EQ(row["mean_wait_ms"], 0.00025);
  EXPECT_EQ(row["bus_bytes_per_second"], 2.5e9);
  EXPECT_EQ(row["last"], Json::parse(R"([{"rank":2,"times":61}])"));
  EXPECT_EQ(json["silent"], Json::parse(R"([{"ranks":"ranks 1,3","why":"it is stopped"}])"));
  answer.set_is_over(true);
  EXPECT_EQ(CollectivesJson(answer)["state"], "kept");
}

}  // namespace
}  // namespace farandole
