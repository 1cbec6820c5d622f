#include "worker/launch/launch_record.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

LaunchRecord OverHosts() {
  LaunchRecord record;
  record.addresses = {"10.0.0.1:7070", "[fd00::7]:7070", "node-1:7070"};
  record.token = "secret";
  record.job = "train-2";
  record.ca_pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
  return record;
}

TEST(LaunchRecordTest, WhatIsEncodedIsDecoded) {
  const LaunchRecord told = OverHosts();
  const absl::StatusOr<LaunchRecord> heard = DecodeLaunchRecord(EncodeLaunchRecord(told));
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->addresses, told.addresses);
  EXPECT_EQ(heard->token, told.token);
  EXPECT_EQ(heard->job, told.job);
  EXPECT_EQ(heard->ca_pem, told.ca_pem);
}

TEST(LaunchRecordTest, OnOneHostThereIsNoCertificate) {
  LaunchRecord told = OverHosts();
  told.addresses = {"127.0.0.1:7070"};
  told.ca_pem = "";
  const absl::StatusOr<LaunchRecord> heard = DecodeLaunchRecord(EncodeLaunchRecord(told));
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->ca_pem, "");
}

TEST(LaunchRecordTest, AFailureIsItsSentence) {
  const absl::Status status = DecodeLaunchRecord(EncodeLaunchFailure("the port is taken")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the port is taken");
}

TEST(LaunchRecordTest, EachPartThatIsCutOffIsNoticed) {
  const std::string whole = EncodeLaunchRecord(OverHosts());
  const size_t certificate = whole.find("-----BEGIN");
  for (size_t bytes = 0; bytes < certificate; ++bytes) {
    const absl::Status status = DecodeLaunchRecord(whole.substr(0, bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << bytes;
  }
  EXPECT_FALSE(DecodeLaunchRecord("farandole launch 1\n\nsecret\njob\n").ok()) << "no address";
  EXPECT_FALSE(DecodeLaunchRecord("farandole launch 1\na:1\n\njob\n").ok()) << "no token";
  EXPECT_FALSE(DecodeLaunchRecord("farandole launch 2\na:1\nsecret\njob\n").ok()) << "another version's";
}

}  // namespace
}  // namespace farandole
