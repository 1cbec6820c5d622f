#include "farandole/v1/flight.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "gtest/gtest.h"
#include "server/job/rules/bounds.h"

namespace farandole {
namespace {

TEST(EvidenceBoundsTest, TimesOfMoreNamesThanARankTellsAreRefused) {
  v1::WorkerMessage message;
  v1::FlightRecords* const flight = message.mutable_evidence()->mutable_flight();
  for (int name = 0; name < 512; ++name) flight->add_times()->set_name("t");
  EXPECT_TRUE(CheckMessage(message, 1).ok());
  flight->mutable_times(0)->clear_name();
  EXPECT_FALSE(CheckMessage(message, 1).ok());
  flight->mutable_times(0)->set_name("t");
  flight->add_times()->set_name("t");
  EXPECT_EQ(CheckMessage(message, 1).message(), "times has 513 entries; 512 is the most");
}

TEST(EvidenceBoundsTest, MoreThanARankCanHaveIsRefused) {
  v1::WorkerMessage message;
  for (int record = 0; record < 512; ++record) message.mutable_evidence()->mutable_flight()->add_records();
  EXPECT_TRUE(CheckMessage(message, 1).ok());
  message.mutable_evidence()->mutable_flight()->add_records();
  EXPECT_FALSE(CheckMessage(message, 1).ok());
  message.mutable_evidence()->clear_flight();
  for (int frame = 0; frame < 101; ++frame) {
    if (message.evidence().threads_size() == 0) message.mutable_evidence()->add_threads();
    message.mutable_evidence()->mutable_threads(0)->add_frames();
  }
  EXPECT_EQ(CheckMessage(message, 1).message(), "frames has 101 entries; 100 is the most");
  v1::ReportFlightRequest report;
  for (int flight = 0; flight < 1025; ++flight) report.add_flights();
  EXPECT_FALSE(CheckReportFlight(report).ok());
}

}  // namespace
}  // namespace farandole
