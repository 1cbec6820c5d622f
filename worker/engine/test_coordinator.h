#ifndef FARANDOLE_WORKER_ENGINE_TEST_COORDINATOR_H_
#define FARANDOLE_WORKER_ENGINE_TEST_COORDINATOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "worker/engine/engine.h"

namespace farandole {

// The coordinator's part in a test of engines, without streams: gathers the ranks' statements, gives slots, and names
// ranks that differ. It reads the ranks' messages, and answers, on a thread of its own; the conversation with each rank
// keeps its order, and a seed decides which rank has its turn. Thread-safe.
class TestCoordinator {
 public:
  TestCoordinator(int size, uint32_t seed);
  ~TestCoordinator();

  // For the engine of `rank`; lives as long as the coordinator.
  ControlLink* link(int rank);
  // Answers go to these engines, by rank, from now on; borrowed until Stop.
  void Connect(std::vector<Engine*> engines);
  // Nothing is delivered after it.
  void Stop();

  // Tells all ranks of a new group, and of its end.
  uint32_t AddGroup(const std::vector<int>& ranks);
  void RemoveGroup(uint32_t group);
  // The slots that were retired, and the messages that ranks have sent.
  int retired() const;
  int messages() const;

 private:
  class Link;
  struct Statement {
    uint64_t signature;
    std::string shape;
    // As Ready has them.
    uint32_t joins;
    uint32_t disputants;
  };
  // Group, name, disputed slot, attempt.
  using Question = std::tuple<uint32_t, std::string, uint32_t, uint32_t>;
  using Message = std::function<void()>;

  void Run();
  void Heard(int rank, Message message);
  void Tell(int rank, std::function<void(Engine&)> message);
  void OnNegotiate(int rank, const Question& question, uint32_t retired_slot, Statement statement);
  void OnRetired(uint32_t slot);
  void OnJoin(int rank, uint32_t joins);
  bool IsComplete(const Question& question, const std::map<int, Statement>& statements);
  void Decide(const Question& question, const std::map<int, Statement>& statements);

  std::vector<std::unique_ptr<Link>> links_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  int messages_ = 0;
  int retired_ = 0;
  std::vector<Engine*> engines_;
  // By rank.
  std::vector<std::deque<Message>> heard_;
  std::vector<std::deque<std::function<void(Engine&)>>> told_;
  std::mt19937 random_;
  std::map<uint32_t, std::vector<int>> groups_;
  std::map<Question, std::map<int, Statement>> asked_;
  // How often all ranks had joined when these did.
  std::map<int, uint32_t> joined_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> slots_;
  uint32_t last_slot_ = 0;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_TEST_COORDINATOR_H_
