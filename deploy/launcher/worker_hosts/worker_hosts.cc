#include "deploy/launcher/worker_hosts/worker_hosts.h"

#include <algorithm>
#include <utility>

namespace farandole::launcher {

WorkerHosts::WorkerHosts(SshOptions ssh, AgentOrder order, EventLoop* loop, WorkerHostListener* listener)
    : ssh_(std::move(ssh)), order_(std::move(order)), loop_(loop), listener_(listener), here_(loop, listener) {}

WorkerHost* WorkerHosts::Add(const HostSlots& host) {
  WorkerHost*& worker_host = by_host_[host.host];
  if (worker_host != nullptr) return worker_host;
  if (host.is_here) {
    worker_host = &here_;
    return worker_host;
  }
  AgentOrder order = order_;
  order.set_host(host.host);
  order.set_size_here(static_cast<uint32_t>(host.slots));
  others_.push_back(std::make_unique<SshWorkerHost>(host.host, ssh_, std::move(order), loop_, listener_));
  worker_host = others_.back().get();
  worker_host->SetTerminals(terminals_);
  if (is_held_) worker_host->HoldOutput(true);
  return worker_host;
}

WorkerHost* WorkerHosts::Find(const std::string& host) const {
  const auto found = by_host_.find(host);
  return found == by_host_.end() ? nullptr : found->second;
}

std::string WorkerHosts::HostOf(const WorkerHost* worker_host) const {
  for (const auto& [host, where] : by_host_) {
    if (where == worker_host) return host;
  }
  return "";
}

void WorkerHosts::Release(const std::string& host) {
  const auto found = by_host_.find(host);
  if (found == by_host_.end()) return;
  WorkerHost* const worker_host = found->second;
  by_host_.erase(found);
  if (worker_host == &here_) return;
  released_.insert(worker_host);
  worker_host->Finish();
}

void WorkerHosts::RemoveReleased() {
  const auto is_over = [this](const std::unique_ptr<WorkerHost>& worker_host) {
    if (released_.count(worker_host.get()) == 0 || !worker_host->is_finished()) return false;
    released_.erase(worker_host.get());
    ready_.erase(worker_host.get());
    return true;
  };
  others_.erase(std::remove_if(others_.begin(), others_.end(), is_over), others_.end());
}

void WorkerHosts::Signal(int signal, bool whole_group) {
  for (WorkerHost* worker_host : all()) worker_host->Signal(signal, whole_group);
}

void WorkerHosts::SetTerminals(const WorkerTerminals& terminals) {
  terminals_ = terminals;
  for (WorkerHost* worker_host : all()) worker_host->SetTerminals(terminals);
}

void WorkerHosts::HoldOutput(bool hold) {
  is_held_ = hold;
  // One that is let go may bring so much that all are held again.
  for (WorkerHost* worker_host : all()) {
    if (is_held_ == hold) worker_host->HoldOutput(hold);
  }
}

bool WorkerHosts::OnChildEnded(pid_t pid, WorkerEnd end) {
  // This process has all children, and looks for its own last.
  for (const std::unique_ptr<WorkerHost>& worker_host : others_) {
    if (worker_host->OnChildEnded(pid, end)) return true;
  }
  return here_.OnChildEnded(pid, end);
}

void WorkerHosts::Finish(bool elsewhere) {
  if (!elsewhere) return here_.Finish();
  for (const std::unique_ptr<WorkerHost>& worker_host : others_) worker_host->Finish();
}

bool WorkerHosts::AreFinished(bool elsewhere) const {
  if (!elsewhere) return here_.is_finished();
  return std::all_of(others_.begin(), others_.end(),
                     [](const std::unique_ptr<WorkerHost>& worker_host) { return worker_host->is_finished(); });
}

std::vector<WorkerHost*> WorkerHosts::all() {
  std::vector<WorkerHost*> all;
  for (const std::unique_ptr<WorkerHost>& worker_host : others_) all.push_back(worker_host.get());
  all.push_back(&here_);
  return all;
}

}  // namespace farandole::launcher
