#ifndef FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_H_
#define FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/device/fake/fake_clique_files.h"

namespace farandole {

// A call to the fake NCCL, whose ranks may be other processes.
struct FakeNcclCall {
  enum class Kind { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

  Kind kind;
  const char* input;
  char* output;  // null: of another process
  size_t count;
  int dtype;
  int op = 0;
  int peer = 0;  // or root
  double factor = 1.0;
  // Whether input and output lie in memory that the communicator was told of.
  bool is_registered[2] = {false, false};
};
using FakeNcclWork = std::vector<FakeNcclCall>;

// The ranks of one unique id, and the calls that they have reached. Not thread-safe.
class FakeClique {
 public:
  explicit FakeClique(int size) : size_(size) {}
  FakeClique(int size, const std::string& directory, uint64_t id)
      : size_(size), files_(std::make_unique<FakeCliqueFiles>(directory, id)) {}

  int size() const { return size_; }
  void Connect(int position);
  // Whether all are there.
  bool IsConnected();

  // A rank begins the split of number `number`, 1 to begin with, with this color.
  void Split(uint64_t number, int position, int color);
  // The colors by position; nothing: some have not come to it yet.
  std::optional<std::vector<int>> ColorsOf(uint64_t number);

  // A rank's stream has come to these calls, its collectives of number `round`, 1 to begin with. Whether they are done;
  // else it asks again. Ranks whose calls differ are a failed check.
  bool Collect(int position, uint64_t round, const FakeNcclWork& calls);
  // The same of sends and receives, which concern pairs of ranks only. `*has_sent` is false at first.
  bool Exchange(int position, const FakeNcclWork& calls, bool* has_sent);

 private:
  struct Round {
    std::vector<std::optional<FakeNcclWork>> calls;  // by position
    int arrived = 0;
    std::deque<std::string> memory;  // of other processes' inputs
  };
  struct Letters {
    std::deque<std::string> waiting;
    // How many messages in files were sent and received.
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  void Fetch(uint64_t number, Round* round);
  void Send(int from, int to, std::string letter);
  bool HasMail(int from, int to, size_t count);

  const int size_;
  int connected_ = 0;
  // Set: the other ranks are other processes.
  const std::unique_ptr<FakeCliqueFiles> files_;
  std::map<uint64_t, Round> rounds_;
  std::map<uint64_t, std::map<int, int>> colors_;  // of splits, by position
  // By sender and receiver.
  std::map<std::pair<int, int>, Letters> mail_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FAKE_FAKE_CLIQUE_H_
