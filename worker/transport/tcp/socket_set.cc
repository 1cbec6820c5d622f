#include "worker/transport/tcp/socket_set.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {
namespace {

// The most events that one Poll takes; the rest comes with the next.
constexpr int kEventsPerPoll = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<SocketSet>> SocketSet::Create(ControlLoop* loop, Doorbell* bell) {
  std::unique_ptr<SocketSet> set(new SocketSet(loop, bell));
  if (absl::Status opened = set->Open(); !opened.ok()) return opened;
  return set;
}

absl::Status SocketSet::Open() {
  set_fd_ = epoll_create1(EPOLL_CLOEXEC);
  rest_fd_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {};
  event.events = EPOLLONESHOT;
  if (set_fd_ < 0 || rest_fd_ < 0 || epoll_ctl(rest_fd_, EPOLL_CTL_ADD, set_fd_, &event) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make an epoll descriptor for the sockets to other hosts: ", strerror(errno)));
  }
  return loop_->WatchFd(rest_fd_, EPOLLIN, [this](short) { RingOnce(); });  // NOLINT(google-runtime-int)
}

SocketSet::~SocketSet() {
  if (rest_fd_ >= 0) {
    loop_->UnwatchFd(rest_fd_);
    close(rest_fd_);
  }
  if (set_fd_ >= 0) close(set_fd_);
}

absl::Status SocketSet::Add(int fd, OnReady on_ready, int peer) {
  FD_CHECK(!sockets_.contains(fd)) << "descriptor " << fd << " is in the set already";
  auto socket = std::make_unique<Socket>();
  socket->fd = fd;
  socket->events = EPOLLIN;
  socket->on_ready = std::move(on_ready);
  epoll_event event = {};
  event.events = socket->events;
  event.data.ptr = socket.get();
  if (epoll_ctl(set_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch descriptor ", fd, ", a socket to another host: ", strerror(error)));
  }
  sockets_[fd] = std::move(socket);
  if (peer < 0) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(fds_mutex_);
  peers_[fd] = peer;
  return absl::OkStatus();
}

void SocketSet::WantWrite(int fd, bool want) { Want(fd, EPOLLOUT, want); }

void SocketSet::WantRead(int fd, bool want) { Want(fd, EPOLLIN, want); }

void SocketSet::Want(int fd, uint32_t event, bool want) {
  const auto found = sockets_.find(fd);
  FD_CHECK(found != sockets_.end()) << "descriptor " << fd << " is not in the set";
  Socket& socket = *found->second;
  const uint32_t events = want ? socket.events | event : socket.events & ~event;
  if (events == socket.events) return;
  socket.events = events;
  epoll_event changed = {};
  changed.events = events;
  changed.data.ptr = &socket;
  FD_CHECK_EQ(epoll_ctl(set_fd_, EPOLL_CTL_MOD, fd, &changed), 0) << strerror(errno);
}

void SocketSet::Remove(int fd) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return;
  epoll_ctl(set_fd_, EPOLL_CTL_DEL, fd, nullptr);
  found->second->removed = true;
  removed_.push_back(std::move(found->second));
  sockets_.erase(found);
  const std::lock_guard<std::mutex> lock(fds_mutex_);
  peers_.erase(fd);
}

std::vector<PeerSending> SocketSet::Sending() const {
  const std::lock_guard<std::mutex> lock(fds_mutex_);
  std::vector<PeerSending> sending;
  for (const auto& [fd, peer] : peers_) {
    tcp_info info = {};
    socklen_t bytes = sizeof(info);
    // Older kernels fill in less of it, and tests have other sockets.
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
    const uint64_t free_us = info.tcpi_busy_time - std::min(info.tcpi_busy_time, info.tcpi_rwnd_limited);
    sending.push_back({peer, absl::Microseconds(static_cast<int64_t>(free_us)), info.tcpi_bytes_acked});
  }
  return sending;
}

bool SocketSet::Poll() {
  if (rests_.load() && rests_.exchange(false)) Arm(0);
  if (sockets_.empty()) {
    removed_.clear();
    return false;
  }
  std::array<epoll_event, kEventsPerPoll> events;
  const int ready = epoll_wait(set_fd_, events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < ready; ++i) {
    auto* socket = static_cast<Socket*>(events[i].data.ptr);
    if (socket->removed) continue;
    const uint32_t got = events[i].events;
    const bool broken = (got & (EPOLLERR | EPOLLHUP)) != 0;
    socket->on_ready(broken || (got & EPOLLIN) != 0, broken || (got & EPOLLOUT) != 0);
  }
  removed_.clear();
  return ready > 0;
}

void SocketSet::Rest() {
  if (sockets_.empty() || rests_.load()) return;
  // Before it is armed: the ring that clears it may come at once.
  rests_.store(true);
  Arm(EPOLLIN);
}

void SocketSet::Arm(uint32_t events) {
  epoll_event event = {};
  event.events = events | EPOLLONESHOT;
  FD_CHECK_EQ(epoll_ctl(rest_fd_, EPOLL_CTL_MOD, set_fd_, &event), 0) << strerror(errno);
}

void SocketSet::RingOnce() {
  epoll_event event;
  // Disarms. Nothing there: a Poll was quicker.
  if (epoll_wait(rest_fd_, &event, 1, 0) != 1) return;
  rests_.store(false);
  bell_->Summon();
}

}  // namespace farandole
