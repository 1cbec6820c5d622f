#include "server/job/rules/event.h"

namespace farandole {

Event::Event(const Event& other) = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(const Event& other) = default;
Event& Event::operator=(Event&& other) noexcept = default;
Event::~Event() = default;

v1::WorkerMessage SignOfLife() {
  v1::WorkerMessage message;
  message.mutable_heartbeat();
  return message;
}

bool IsSignOfLife(const v1::WorkerMessage& message) {
  return message.has_heartbeat() && message.heartbeat().epoch() == 0;
}

}  // namespace farandole
