#include "worker/control/control_stream.h"

#include <utility>

namespace farandole {
namespace {

// gRPC completes a cancelled call without the network.
constexpr absl::Duration kCancelDeadline = absl::Seconds(5);

}  // namespace

std::unique_ptr<ControlStream> ControlStream::Open(v1::WorkerService::StubInterface* stub,
                                                   const CoordinatorAddress& where, v1::Hello hello, Events events) {
  std::unique_ptr<ControlStream> stream(new ControlStream(std::move(events)));
  PrepareCall(where, absl::InfiniteDuration(), &stream->context_);
  stub->async()->Attach(&stream->context_, stream.get());
  // One hold for all that is started outside of gRPC's own calls; Break gives it back.
  stream->AddHold();
  v1::WorkerMessage first;
  *first.mutable_hello() = std::move(hello);
  {
    absl::MutexLock lock(&stream->mutex_);
    stream->Enqueue(std::move(first));
    stream->WriteNext();
    stream->StartRead(&stream->incoming_);
  }
  stream->StartCall();
  return stream;
}

bool ControlStream::Send(v1::WorkerMessage message) {
  absl::MutexLock lock(&mutex_);
  if (broken_ || last_queued_) return true;
  if (queue_.size() >= kMaxQueuedMessages || queued_bytes_ + message.ByteSizeLong() > kMaxQueuedBytes) return false;
  Enqueue(std::move(message));
  WriteNext();
  return true;
}

void ControlStream::SendLast(v1::WorkerMessage message) {
  absl::MutexLock lock(&mutex_);
  if (broken_ || last_queued_) return;
  Enqueue(std::move(message));
  last_queued_ = true;
  WriteNext();
}

void ControlStream::ReadNext() {
  absl::MutexLock lock(&mutex_);
  if (!broken_) StartRead(&incoming_);
}

void ControlStream::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (!broken_) {
    context_.TryCancel();
    Break();
  }
}

void ControlStream::Retire(std::unique_ptr<ControlStream> stream) {
  if (stream == nullptr) return;
  stream->Cancel();
  if (!stream->done_.WaitFor(kCancelDeadline)) static_cast<void>(stream.release());
}

void ControlStream::Enqueue(v1::WorkerMessage message) {
  queued_bytes_ += message.ByteSizeLong();
  queue_.push_back(std::move(message));
}

void ControlStream::WriteNext() {
  if (writing_ || broken_ || queue_.empty()) return;
  writing_ = true;
  if (last_queued_ && queue_.size() == 1) {
    StartWriteLast(&queue_.front(), grpc::WriteOptions());
  } else {
    StartWrite(&queue_.front());
  }
}

void ControlStream::Break() {
  if (broken_) return;
  broken_ = true;
  RemoveHold();
}

void ControlStream::OnReadDone(bool ok) {
  if (ok) {
    events_.on_message(std::move(incoming_));
    return;
  }
  absl::MutexLock lock(&mutex_);
  Break();
}

void ControlStream::OnWriteDone(bool ok) {
  bool hello = false;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      Break();
      return;
    }
    hello = !std::exchange(hello_written_, true);
    queued_bytes_ -= queue_.front().ByteSizeLong();
    queue_.pop_front();
    WriteNext();
  }
  if (hello) events_.on_hello_written();
}

void ControlStream::OnDone(const grpc::Status& status) {
  events_.on_done(status);
  // From here on the owner may destroy this object.
  done_.Notify();
}

}  // namespace farandole
