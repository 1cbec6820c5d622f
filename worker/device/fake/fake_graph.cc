#include "worker/device/fake/fake_graph.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "worker/device/fake/fake_gpus.h"

namespace farandole {

uint64_t FakeGraph::Record(CudaStream stream) {
  nodes_.push_back({stream, nullptr, ++points_, 0});
  return points_;
}

bool FakeGraph::IsJoined() const {
  std::map<CudaStream, uint64_t> last;  // 0: an event that no stream can wait for
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

void FakeGpus::BeginCapture(CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stream->graph = new FakeGraph(stream);
  captured_.insert(stream->graph);
}

std::unique_ptr<FakeGraph> FakeGpus::EndCapture(CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<FakeGraph> graph(stream->graph);
  for (const CudaStream captured : streams_) {
    if (captured->graph == graph.get()) captured->graph = nullptr;
  }
  captured_.erase(graph.get());
  if (graph->IsJoined() && !graph->is_spoiled()) return graph;
  DestroyLocked(std::move(graph));
  return nullptr;
}

void FakeGpus::Launch(CudaStream stream, const FakeGraph& graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto has_begun = std::make_shared<bool>(false);
  std::vector<CudaStream> replayed;
  for (auto& [captured, tasks] : graph.Run()) {
    replayed.push_back(*streams_.insert(new CUstream_st).first);
    Push(replayed.back(), [has_begun] { return *has_begun; });
    for (auto& task : tasks) Push(replayed.back(), task);
  }
  Push(stream, [has_begun] { return *has_begun = true; });
  Push(stream, [this, replayed] {
    for (const CudaStream one : replayed) {
      if (!one->tasks.empty()) return false;
    }
    for (const CudaStream one : replayed) {
      streams_.erase(one);
      delete one;
    }
    return true;
  });
}

void FakeGpus::Destroy(std::unique_ptr<FakeGraph> graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  DestroyLocked(std::move(graph));
}

void FakeGpus::DestroyLocked(std::unique_ptr<FakeGraph> graph) {
  for (const CudaAddress address : graph->memory()) memory_.erase(address);
  for (const auto& let_go : graph->holds()) let_go();
  changed_.notify_all();
}

}  // namespace farandole
