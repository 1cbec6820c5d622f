#include "worker/transport/testing/inproc_transport.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/transport/testing/conformance.h"
#include "worker/transport/testing/inproc_fabric.h"

namespace farandole {
namespace {

TransportSet MakeInprocSet(int size) {
  auto fabric = std::make_shared<InprocFabric>(size);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<InprocTransport>(*fabric, rank));
    set.doorbells.push_back(&fabric->doorbell(rank));
  }
  set.foundation = std::move(fabric);
  return set;
}

INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformanceTest,
                         ::testing::ValuesIn(ConformanceCases({"Inproc", MakeInprocSet})), ConformanceCaseName);

TEST(InprocTransportTest, TransfersThatMatchHaveEqualLengths) {
  InprocFabric fabric(2);
  InprocTransport sender(fabric, 0);
  InprocTransport receiver(fabric, 1);
  std::string eight = "12345678";
  std::string nine(9, ' ');
  Transfer send = {1, eight.data(), eight.size()};
  Transfer receive = {0, nine.data(), nine.size()};
  sender.Send(&send);
  receiver.Receive(&receive);
  ASSERT_TRUE(sender.Progress().ok());
  const absl::Status mismatch = absl::InternalError("rank 0 sends 8 bytes to rank 1, which expects 9");
  EXPECT_EQ(receiver.Progress().status(), mismatch);
  EXPECT_EQ(sender.Progress().status(), mismatch);
}

TEST(InprocTransportTest, EmptyTransfersTakeTheirTurn) {
  InprocFabric fabric(2);
  InprocTransport sender(fabric, 0);
  InprocTransport receiver(fabric, 1);
  std::string byte = "x";
  std::string received = " ";
  Transfer sends[] = {{1, nullptr, 0}, {1, byte.data(), 1}};
  Transfer receives[] = {{0, nullptr, 0}, {0, received.data(), 1}};
  for (Transfer& receive : receives) receiver.Receive(&receive);
  ASSERT_TRUE(receiver.Progress().ok());
  EXPECT_FALSE(receives[0].complete);
  for (Transfer& send : sends) sender.Send(&send);
  EXPECT_TRUE(*sender.Progress());
  EXPECT_TRUE(*receiver.Progress());
  EXPECT_FALSE(*receiver.Progress());
  EXPECT_TRUE(receives[0].complete && receives[1].complete);
  EXPECT_EQ(received, "x");
}

TEST(InprocTransportTest, ALargeTransferWaitsForItsReader) {
  InprocFabric fabric(2);
  InprocTransport sender(fabric, 0);
  std::string bytes(1 << 20, 'x');
  Transfer send = {1, bytes.data(), bytes.size()};
  sender.Send(&send);
  EXPECT_TRUE(*sender.Progress());
  EXPECT_FALSE(*sender.Progress());
  EXPECT_FALSE(send.complete);
  EXPECT_LT(send.done, bytes.size());
}

}  // namespace
}  // namespace farandole
