#include "worker/transport/testing/inproc_fabric.h"

#include <cstddef>

#include "base/check.h"

namespace farandole {

InprocFabric::InprocFabric(int size)
    : size_(size),
      doorbells_(std::make_unique<Doorbell[]>(size)),
      queues_(std::make_unique<std::atomic<InprocQueue*>[]>(static_cast<size_t>(size) * size)) {}

InprocFabric::~InprocFabric() {
  for (size_t i = 0; i < static_cast<size_t>(size_) * size_; ++i) delete queues_[i].load();
}

InprocQueue& InprocFabric::WriterQueue(int from, int to) {
  std::atomic<InprocQueue*>& slot = Slot(from, to);
  InprocQueue* queue = slot.load();
  if (queue == nullptr) {
    queue = new InprocQueue;
    slot.store(queue);
  }
  return *queue;
}

InprocQueue* InprocFabric::ReaderQueue(int from, int to) const { return Slot(from, to).load(); }

void InprocFabric::Abort(const absl::Status& reason) {
  FD_CHECK(!reason.ok()) << "an epoch does not end without a reason";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (code_ != absl::StatusCode::kOk) return;
    code_ = reason.code();
    message_ = std::string(reason.message());
  }
  aborted_.store(true);
  for (int rank = 0; rank < size_; ++rank) doorbells_[rank].RingAll();
}

absl::Status InprocFabric::status() const {
  if (!aborted_.load()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return absl::Status(code_, message_);
}

std::atomic<InprocQueue*>& InprocFabric::Slot(int from, int to) const {
  FD_CHECK(from >= 0 && from < size_ && to >= 0 && to < size_)
      << "a transfer from rank " << from << " to rank " << to << " in an epoch of " << size_ << " ranks";
  return queues_[static_cast<size_t>(from) * size_ + to];
}

}  // namespace farandole
