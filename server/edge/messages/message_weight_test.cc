#include "server/edge/messages/message_weight.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;

template <typename Message>
absl::StatusOr<MessageWeight> Weigh(const std::string& wire) {
  return WeighMessage(wire, *Message::descriptor());
}

// So many fields of two bytes: this number, and no bytes.
std::string Empties(int number, size_t count) {
  std::string wire;
  for (size_t i = 0; i < count; ++i) {
    wire += static_cast<char>(number << 3 | 2);
    wire += '\0';
  }
  return wire;
}

// Of a model with so many parameters.
v1::WorkerMessage HelloOf(int names) {
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_job("train");
  for (int i = 0; i < names; ++i) {
    v1::SlotAssigned* slot = hello->add_slots();
    slot->set_slot(i);
    slot->set_name(absl::StrCat("encoder.layers.", i, ".attention.query.weight"));
  }
  return message;
}

TEST(MessageWeightTest, AMessageWeighsAboutWhatItTakesInMemory) {
  for (const int names : {0, 1, 100, 65536}) {
    const v1::WorkerMessage message = HelloOf(names);
    const absl::StatusOr<MessageWeight> weight = Weigh<v1::WorkerMessage>(message.SerializeAsString());
    ASSERT_TRUE(weight.ok()) << weight.status();
    EXPECT_FALSE(weight->has_unknown);
    v1::WorkerMessage read;
    ASSERT_TRUE(read.ParseFromString(message.SerializeAsString()));
    EXPECT_GE(weight->memory_bytes, static_cast<int64_t>(read.SpaceUsedLong()) / 2 - 256) << names;
    EXPECT_LE(weight->memory_bytes, static_cast<int64_t>(read.SpaceUsedLong()) * 3) << names;
  }
}

TEST(MessageWeightTest, WhatGrowsWhenItIsReadWeighsThat) {
  const int flights = v1::ReportFlightRequest::kFlightsFieldNumber;
  const std::string wire = Empties(flights, 100'000);
  v1::ReportFlightRequest read;
  ASSERT_TRUE(read.ParseFromString(wire));
  EXPECT_EQ(read.flights_size(), 100'000);
  EXPECT_GE(Weigh<v1::ReportFlightRequest>(wire)->memory_bytes, static_cast<int64_t>(read.SpaceUsedLong()));
  // Packed numbers of a byte each.
  v1::DrainWorkersRequest drain;
  for (uint32_t i = 0; i < 50'000; ++i) drain.mutable_launched()->add_indices(i % 100);
  EXPECT_GE(Weigh<v1::DrainWorkersRequest>(drain.SerializeAsString())->memory_bytes, int64_t{50'000} * 4);
  // Texts.
  const std::string names = Empties(v1::ListLoggedRequest::kNamesFieldNumber, 100'000);
  v1::ListLoggedRequest logged;
  ASSERT_TRUE(logged.ParseFromString(names));
  EXPECT_EQ(logged.names_size(), 100'000);
  EXPECT_GE(Weigh<v1::ListLoggedRequest>(names)->memory_bytes, static_cast<int64_t>(logged.SpaceUsedLong()));
}

TEST(MessageWeightTest, TooManyPartsAreRefused) {
  const std::string wire = Empties(v1::ReportFlightRequest::kFlightsFieldNumber, kMostParts + 1);
  const absl::Status refusal = Weigh<v1::ReportFlightRequest>(wire).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("ReportFlightRequest of 2097154 bytes has more than 1048576"));
  EXPECT_FALSE(Weigh<v1::GetJobRequest>(Empties(15, kMostParts + 1)).ok()) << "unknown ones too";
  EXPECT_TRUE(Weigh<v1::WorkerMessage>(HelloOf(1 << 17).SerializeAsString()).ok());
}

TEST(MessageWeightTest, FieldsOfALaterVersionAreSeen) {
  v1::WorkerMessage message = HelloOf(1);
  v1::Hello* hello = message.mutable_hello();
  hello->GetReflection()->MutableUnknownFields(hello)->AddVarint(1000, 7);
  EXPECT_TRUE(Weigh<v1::WorkerMessage>(message.SerializeAsString())->has_unknown);
}

TEST(MessageWeightTest, WhatIsNoMessageIsRefused) {
  const std::string whole = HelloOf(3).SerializeAsString();
  EXPECT_FALSE(Weigh<v1::WorkerMessage>(whole.substr(0, whole.size() - 1)).ok());
  EXPECT_FALSE(Weigh<v1::WorkerMessage>("\xff").ok());
  EXPECT_FALSE(Weigh<v1::WorkerMessage>(std::string("\x0a\xff\xff\xff\xff\x7f", 6)).ok()) << "a length beyond its end";
  EXPECT_FALSE(Weigh<v1::WorkerMessage>(std::string("\x7b\x7c", 2)).ok()) << "a group";
  EXPECT_FALSE(Weigh<v1::WorkerMessage>(std::string("\x02\x00", 2)).ok()) << "field 0";
  EXPECT_TRUE(Weigh<v1::WorkerMessage>("").ok());
}

}  // namespace
}  // namespace farandole
