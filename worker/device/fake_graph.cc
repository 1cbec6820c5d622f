#include "worker/device/fake_graph.h"

#include <algorithm>

namespace farandole {

uint64_t FakeGraph::Record(CudaStream stream) {
  nodes_.push_back({stream, nullptr, ++points_, 0});
  return points_;
}

bool FakeGraph::IsJoined() const {
  std::map<CudaStream, uint64_t> last;  // 0: something that nobody can wait for
  std::set<uint64_t> awaited;
  for (const Node& node : nodes_) {
    if (node.awaited == 0) last[node.stream] = node.recorded;
    if (node.stream == origin_) awaited.insert(node.awaited);
  }
  return std::all_of(last.begin(), last.end(), [&](const auto& stream) {
    return stream.first == origin_ || (stream.second != 0 && awaited.count(stream.second) == 1);
  });
}

std::map<CudaStream, std::vector<FakeGraph::Task>> FakeGraph::Run() const {
  std::map<CudaStream, std::vector<Task>> tasks;
  auto reached = std::make_shared<std::set<uint64_t>>();
  for (const Node& node : nodes_) {
    Task task = [reached, awaited = node.awaited] { return reached->count(awaited) == 1; };
    if (node.recorded != 0) {
      task = [reached, recorded = node.recorded] {
        reached->insert(recorded);
        return true;
      };
    }
    tasks[node.stream].push_back(node.make != nullptr ? node.make() : std::move(task));
  }
  return tasks;
}

}  // namespace farandole
