#include "web/logged_text.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

v1::ListLoggedResponse Logged() {
  v1::ListLoggedResponse logged;
  v1::LoggedSeries* series = logged.add_series();
  series->set_name("loss, \"all\"");
  for (const double value : {0.1, std::numeric_limits<double>::quiet_NaN()}) {
    series->add_first_step(series->first_step_size() * 2);
    series->add_last_step(series->last_step_size() * 2 + 1);
    series->add_mean(value);
    series->add_least(-0.25);
    series->add_greatest(1e300);
    series->add_count(2);
    series->add_at_unix_ms(1'700'000'000'000);
    series->add_epoch(1);
  }
  *logged.add_series() = *series;
  logged.mutable_series(1)->set_rank(3);
  logged.set_dropped(4);
  return logged;
}

TEST(LoggedTextTest, CsvHasALineForEachPoint) {
  EXPECT_EQ(LoggedCsv(Logged()),
            "name,rank,first_step,last_step,mean,least,greatest,count,at_unix_ms,epoch\r\n"
            "\"loss, \"\"all\"\"\",,0,1,0.1,-0.25,1e+300,2,1700000000000,1\r\n"
            "\"loss, \"\"all\"\"\",,2,3,nan,-0.25,1e+300,2,1700000000000,1\r\n"
            "\"loss, \"\"all\"\"\",3,0,1,0.1,-0.25,1e+300,2,1700000000000,1\r\n"
            "\"loss, \"\"all\"\"\",3,2,3,nan,-0.25,1e+300,2,1700000000000,1\r\n");
}

TEST(LoggedTextTest, NoCellIsAFormulaOfASpreadsheet) {
  for (const std::string name : {"=HYPERLINK(\"http://a\")", "+1", "-1", "@a", "\t=1"}) {
    v1::ListLoggedResponse logged = Logged();
    logged.mutable_series(0)->set_name(name);
    EXPECT_THAT(LoggedCsv(logged), testing::HasSubstr("\r\n\"'" + name.substr(0, 2)));
  }
}

TEST(LoggedTextTest, JsonHasColumnsAndNullForWhatIsNotFinite) {
  const nlohmann::json json = nlohmann::json::parse(LoggedJson(Logged()));
  EXPECT_EQ(json["series"].size(), 2u);
  EXPECT_EQ(json["series"][0]["name"], "loss, \"all\"");
  EXPECT_FALSE(json["series"][0].contains("rank"));
  EXPECT_EQ(json["series"][1]["rank"], 3);
  EXPECT_EQ(json["series"][0]["mean"][0], 0.1);
  EXPECT_TRUE(json["series"][0]["mean"][1].is_null());
  EXPECT_EQ(json["series"][0]["last_step"], (std::vector<int>{1, 3}));
  EXPECT_EQ(json["dropped"], 4);
}

}  // namespace
}  // namespace farandole
