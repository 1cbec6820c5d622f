#include "worker/transport/shm/shm_transport.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/transport/testing/conformance.h"

namespace farandole {
namespace {

struct Mem {
  explicit Mem(int size) : bells(new Doorbell[size]()) {
    memory = std::aligned_alloc(4096, (ShmLayout::Bytes(size) + 4095) / 4096 * 4096);
    std::memset(memory, 0, ShmLayout::Bytes(size));
  }
  ~Mem() { std::free(memory); }
  std::unique_ptr<Doorbell[]> bells;
  void* memory;
};

TransportSet MakeShmSet(int size) {
  auto mem = std::make_shared<Mem>(size);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) set.doorbells.push_back(&mem->bells[rank]);
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<ShmTransport>(mem->memory, rank, set.doorbells));
  }
  set.foundation = std::move(mem);
  return set;
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformanceTest, ::testing::ValuesIn(ConformanceCases({"Shm", MakeShmSet})),
                         ConformanceCaseName);

}  // namespace
}  // namespace farandole
