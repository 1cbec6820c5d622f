#include "worker/transport/gloo/gloo_pair.h"

#include <endian.h>
#include <errno.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/quiet_thread.h"
#include "worker/transport/tcp/interface_address.h"

namespace farandole {
namespace {

// Gloo knows no wait without an end; this is far beyond the life of an epoch, and does not overflow its clock.
constexpr std::chrono::hours kForEver(100 * 24);
// Gloo waits five times its timeout for a connection.
constexpr int kGlooConnectFactor = 5;
// Gloo's address has some 140 bytes.
constexpr uint32_t kMaxAddressBytes = 4096;

void Await(int fd, short events) {  // NOLINT(google-runtime-int): poll(2)'s type.
  pollfd entry = {fd, events, 0};
  while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
}

std::string LocalHost(int fd) {
  SocketAddress local;
  local.bytes = sizeof(local.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&local.storage), &local.bytes);
  return local.Host();
}

}  // namespace

std::shared_ptr<gloo::transport::Device> GlooDevices::At(const std::string& host) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<gloo::transport::Device>& device = devices_[host];
  if (device == nullptr) device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host.c_str()));
  return device;
}

GlooPair::GlooPair(Ends ends, GlooDevices* devices, Events events, absl::Duration connect_limit)
    : ends_(std::move(ends)), devices_(devices), events_(std::move(events)), connect_limit_(connect_limit) {
  out_.is_out = true;
  out_.thread = QuietThread([this] { Run(&out_); });
  in_.thread = QuietThread([this] { Run(&in_); });
}

GlooPair::~GlooPair() {
  FD_CHECK(!out_.thread.joinable() && !in_.thread.joinable()) << "a pair's threads end before it";
  context_.reset();
  if (fd_ >= 0) close(fd_);
}

void GlooPair::Join() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Gloo's own connecting ends by this.
    if (context_ != nullptr && !met_) context_->getPair(ends_.peer)->close();
  }
  out_.thread.join();
  in_.thread.join();
}

void GlooPair::Connected(absl::StatusOr<int> fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fd.ok()) {
    fd_ = *fd;
    if (stopped_) shutdown(fd_, SHUT_RD);
  } else {
    unreached_ = fd.status();
  }
  changed_.notify_all();
}

void GlooPair::Start(Lane* lane, Transfer* transfer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lane->waiting.push_back(transfer);
  changed_.notify_all();
}

bool GlooPair::TakeCompleted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool any = false;
  for (Lane* lane : {&out_, &in_}) {
    for (Transfer* transfer : lane->completed) {
      transfer->done = transfer->bytes;
      transfer->complete = true;
      any = true;
    }
    lane->completed.clear();
  }
  return any;
}

void GlooPair::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(stopped_, true)) return;
  // Of this the peer sees nothing: it is to hear the reason of the end, not that this side has ended.
  if (fd_ >= 0) shutdown(fd_, SHUT_RD);
  if (out_.buffer != nullptr) out_.buffer->abortWaitSend();
  if (in_.buffer != nullptr) in_.buffer->abortWaitRecv();
  changed_.notify_all();
}

void GlooPair::Settle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !out_.busy && !in_.busy; });
}

void GlooPair::Run(Lane* lane) {
  pthread_setname_np(pthread_self(), lane->is_out ? "fd-gloo-out" : "fd-gloo-in");
  absl::Status failure;
  try {
    if (lane->is_out) Meet();
    for (;;) {
      Transfer transfer;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || (met_ && !lane->waiting.empty()); });
        if (stopped_) return;
        transfer = *lane->waiting.front();
        lane->busy = true;
      }
      Move(lane, transfer);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        lane->busy = false;
        changed_.notify_all();
        if (stopped_) return;
        lane->completed.push_back(lane->waiting.front());
        lane->waiting.pop_front();
      }
      events_.on_complete();
    }
  } catch (const absl::Status& status) {
    failure = status;
  } catch (const std::exception& error) {
    failure = absl::AbortedError(
        absl::StrCat("Gloo's connection of rank ", ends_.rank, " to ", ends_.who, " broke: ", error.what()));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lane->busy = false;
    changed_.notify_all();
    // An end because of Stop is no news.
    if (stopped_) return;
  }
  events_.on_failure(failure);
}

void GlooPair::Meet() {
  int fd = -1;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || fd_ >= 0 || !unreached_.ok(); });
    if (stopped_) return;
    if (!unreached_.ok()) throw unreached_;
    fd = fd_;
  }
  const std::shared_ptr<gloo::transport::Context> context =
      devices_->At(LocalHost(fd))->createContext(ends_.rank, ends_.size);
  context->setTimeout(std::chrono::milliseconds(1 + absl::ToInt64Milliseconds(connect_limit_ / kGlooConnectFactor)));
  gloo::transport::Pair& pair = *context->createPair(ends_.peer);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
    context_ = context;
  }
  const std::vector<char> own = pair.address().bytes();
  const uint32_t own_size = htole32(static_cast<uint32_t>(own.size()));
  Say(&own_size, sizeof(own_size));
  Say(own.data(), own.size());
  uint32_t size = 0;
  Hear(&size, sizeof(size));
  size = le32toh(size);
  if (size != own.size() || size > kMaxAddressBytes) {
    throw absl::InternalError(absl::StrCat(ends_.who, " says a Gloo address of ", size, " bytes where rank ",
                                           ends_.rank, " has one of ", own.size()));
  }
  std::vector<char> address(size);
  Hear(address.data(), address.size());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
  }
  pair.connect(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  met_ = true;
  changed_.notify_all();
}

void GlooPair::Move(Lane* lane, const Transfer& transfer) {
  uint64_t length = htole64(transfer.bytes);
  if (lane->is_out) {
    Say(&length, sizeof(length));
  } else {
    Hear(&length, sizeof(length));
    length = le64toh(length);
    if (length != transfer.bytes) {
      throw absl::InternalError(absl::StrCat("rank ", ends_.peer, " sends ", length, " bytes to rank ", ends_.rank,
                                             ", which expects ", transfer.bytes));
    }
  }
  if (transfer.bytes > 0) MoveBytes(lane, transfer);
  ++lane->next;
}

void GlooPair::MoveBytes(Lane* lane, const Transfer& transfer) {
  // Its destructor comes back when Gloo's thread touches the bytes no more.
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer =
      context_->createUnboundBuffer(transfer.data, transfer.bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
    lane->buffer = buffer.get();
  }
  std::exception_ptr error;
  try {
    if (lane->is_out) {
      buffer->send(ends_.peer, lane->next);
      buffer->waitSend(nullptr, kForEver);
    } else {
      buffer->recv(ends_.peer, lane->next);
      buffer->waitRecv(nullptr, kForEver);
    }
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lane->buffer = nullptr;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void GlooPair::Say(const void* bytes, size_t size) const {
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(fd_, from, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      Await(fd_, POLLOUT);
    } else if (sent < 0 && errno != EINTR) {
      throw absl::AbortedError(
          absl::StrCat("the connection of rank ", ends_.rank, " to ", ends_.who, " broke: ", strerror(errno)));
    } else if (sent > 0) {
      from += sent;
      size -= static_cast<size_t>(sent);
    }
  }
}

void GlooPair::Hear(void* bytes, size_t size) const {
  char* to = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = recv(fd_, to, size, 0);
    if (got < 0 && errno == EAGAIN) {
      Await(fd_, POLLIN);
    } else if (got == 0) {
      throw absl::AbortedError(absl::StrCat(ends_.who, " ended its connection to rank ", ends_.rank));
    } else if (got < 0 && errno != EINTR) {
      throw absl::AbortedError(
          absl::StrCat("the connection of rank ", ends_.rank, " to ", ends_.who, " broke: ", strerror(errno)));
    } else if (got > 0) {
      to += got;
      size -= static_cast<size_t>(got);
    }
  }
}

}  // namespace farandole
