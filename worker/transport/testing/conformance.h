#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/transport/testing/conformance_batch.h"
#include "worker/transport/testing/conformance_run.h"

namespace farandole {

// A transport that the suite runs on.
struct TransportFactory {
  std::string name;
  // Makes a new epoch of that many ranks.
  std::function<TransportSet(int size)> make;
};

struct ConformanceCase {
  TransportFactory factory;
  int size = 1;
};

std::ostream& operator<<(std::ostream& out, const ConformanceCase& tested);

// The suite that every transport passes, over all collectives, on 1, 2, 3, 4 and 8 ranks. Up to 8 ranks, reductions are
// equal to the bit to one Reduce over the ranks' inputs in their order, so those of all transports are equal; over
// several hosts, to one over the hosts' results, each made of that host's ranks. A transport's test links this suite
// and says
//
//   INSTANTIATE_TEST_SUITE_P(Shm, TransportConformanceTest, testing::ValuesIn(ConformanceCases({"shm", make})),
//                            ConformanceCaseName);
class TransportConformanceTest : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  int size() const { return GetParam().size; }
  TransportSet MakeSet() const { return GetParam().factory.make(size()); }
  // A batch of all ranks with these counts.
  ConformanceBatch BatchOf(OpType op, std::vector<int64_t> counts) const;
  // Runs the batches one after the other in one epoch and compares all that they give.
  void ExpectConforms(std::vector<ConformanceBatch> batches) const;
};

std::vector<ConformanceCase> ConformanceCases(const TransportFactory& factory);
std::string ConformanceCaseName(const ::testing::TestParamInfo<ConformanceCase>& tested);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_H_
