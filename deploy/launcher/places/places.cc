#include "deploy/launcher/places/places.h"

#include <algorithm>
#include <utility>

namespace farandole::launcher {

Places::Places(SshOptions ssh, AgentOrder order, EventLoop* loop, PlaceListener* listener)
    : ssh_(std::move(ssh)), order_(std::move(order)), loop_(loop), listener_(listener), here_(loop, listener) {}

Place* Places::Add(const HostSlots& host) {
  Place*& place = by_host_[host.host];
  if (place != nullptr) return place;
  if (host.is_here) {
    place = &here_;
    return place;
  }
  AgentOrder order = order_;
  order.host = host.host;
  order.size_here = static_cast<uint32_t>(host.slots);
  others_.push_back(std::make_unique<SshPlace>(host.host, ssh_, std::move(order), loop_, listener_));
  place = others_.back().get();
  place->SetTerminals(terminals_);
  if (is_held_) place->HoldOutput(true);
  return place;
}

Place* Places::Find(const std::string& host) const {
  const auto found = by_host_.find(host);
  return found == by_host_.end() ? nullptr : found->second;
}

std::string Places::HostOf(const Place* place) const {
  for (const auto& [host, where] : by_host_) {
    if (where == place) return host;
  }
  return "";
}

void Places::Release(const std::string& host) {
  const auto found = by_host_.find(host);
  if (found == by_host_.end()) return;
  Place* const place = found->second;
  by_host_.erase(found);
  if (place == &here_) return;
  released_.insert(place);
  place->Finish();
}

void Places::RemoveReleased() {
  const auto is_over = [this](const std::unique_ptr<Place>& place) {
    if (released_.count(place.get()) == 0 || !place->is_finished()) return false;
    released_.erase(place.get());
    ready_.erase(place.get());
    return true;
  };
  others_.erase(std::remove_if(others_.begin(), others_.end(), is_over), others_.end());
}

void Places::Signal(int signal, bool whole_group) {
  for (Place* place : all()) place->Signal(signal, whole_group);
}

void Places::SetTerminals(const WorkerTerminals& terminals) {
  terminals_ = terminals;
  for (Place* place : all()) place->SetTerminals(terminals);
}

void Places::HoldOutput(bool hold) {
  is_held_ = hold;
  // One that is let go may bring so much that all are held again.
  for (Place* place : all()) {
    if (is_held_ == hold) place->HoldOutput(hold);
  }
}

bool Places::OnChildEnded(pid_t pid, WorkerEnd end) {
  // This process has all children, and looks for its own last.
  for (const std::unique_ptr<Place>& place : others_) {
    if (place->OnChildEnded(pid, end)) return true;
  }
  return here_.OnChildEnded(pid, end);
}

void Places::Finish(bool elsewhere) {
  if (!elsewhere) return here_.Finish();
  for (const std::unique_ptr<Place>& place : others_) place->Finish();
}

bool Places::AreFinished(bool elsewhere) const {
  if (!elsewhere) return here_.is_finished();
  return std::all_of(others_.begin(), others_.end(),
                     [](const std::unique_ptr<Place>& place) { return place->is_finished(); });
}

std::vector<Place*> Places::all() {
  std::vector<Place*> all;
  for (const std::unique_ptr<Place>& place : others_) all.push_back(place.get());
  all.push_back(&here_);
  return all;
}

}  // namespace farandole::launcher
