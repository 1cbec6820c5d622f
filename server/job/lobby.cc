#include "server/job/lobby.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/job/wording.h"

namespace farandole {

absl::Status Lobby::Join(const v1::JoinRequest& request, absl::Time now) {
  const v1::Member& member = request.member();
  if (!workers_.empty() && request.wanted_size() != wanted_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted_size is ", request.wanted_size(), " for ", DescribeWorker(member), ", and ", wanted_size_,
                     " for ", DescribeWorker(workers_.begin()->second.member), ", which waits already"));
  }
  if (Has(member.incarnation())) return absl::OkStatus();
  if (request.wanted_size() > max_workers_) {
    return absl::ResourceExhaustedError(absl::StrCat("wanted_size is ", request.wanted_size(),
                                                     "; this coordinator takes at most ", max_workers_,
                                                     " workers per job"));
  }
  if (!workers_.empty() && workers_.size() >= wanted_size_) {
    return absl::AlreadyExistsError(
        absl::StrCat("the job has ", All(wanted_size_, "worker"), " that it wants already: ", NameWorkers()));
  }
  const size_t bytes = workers_.empty() ? 0 : member_bytes_;
  if (bytes + member.ByteSizeLong() > kMostMemberBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("with ", DescribeWorker(member), " the members of the job would describe themselves in ",
                     bytes + member.ByteSizeLong(), " bytes; ", kMostMemberBytes, " is the most"));
  }
  if (workers_.empty()) {
    wanted_size_ = request.wanted_size();
    stall_warning_ = absl::Milliseconds(request.stall_warning_ms());
    timeout_ = absl::Milliseconds(request.join_timeout_ms());
    timeout_at_ = now + timeout_;
    notice_at_ = now + kWaitingInterval;
  }
  member_bytes_ = bytes + member.ByteSizeLong();
  const uint64_t order = ++joins_;
  workers_[order] = {member, request.launch_index(), now, 0};
  order_of_[member.incarnation()] = order;
  unopened_[order] = now;
  return absl::OkStatus();
}

StreamId Lobby::Open(const std::string& incarnation, StreamId stream) {
  const uint64_t order = order_of_.at(incarnation);
  unopened_.erase(order);
  return std::exchange(workers_.at(order).stream, stream);
}

void Lobby::Remove(const std::string& incarnation) {
  const auto it = order_of_.find(incarnation);
  if (it == order_of_.end()) return;
  member_bytes_ -= workers_.at(it->second).member.ByteSizeLong();
  workers_.erase(it->second);
  unopened_.erase(it->second);
  order_of_.erase(it);
  if (workers_.empty()) notice_at_ = absl::InfiniteFuture();
}

std::vector<std::string> Lobby::RemoveUnopened(absl::Time now) {
  std::vector<std::string> sentences;
  while (!unopened_.empty() && unopened_.begin()->second + open_limit_ <= now) {
    const Worker& worker = workers_.at(unopened_.begin()->first);
    sentences.push_back(absl::StrCat(DescribeWorker(worker.member), " joined and did not open its stream within ",
                                     ShowDuration(open_limit_), "; it no longer counts"));
    const std::string incarnation = worker.member.incarnation();
    Remove(incarnation);
  }
  return sentences;
}

std::vector<Lobby::Worker> Lobby::Take() {
  std::vector<Worker> taken;
  taken.reserve(workers_.size());
  for (auto& [order, worker] : workers_) taken.push_back(std::move(worker));
  workers_.clear();
  order_of_.clear();
  unopened_.clear();
  member_bytes_ = 0;
  wanted_size_ = 0;
  timeout_at_ = notice_at_ = absl::InfiniteFuture();
  return taken;
}

bool Lobby::IsComplete() const { return !workers_.empty() && workers_.size() == wanted_size_ && unopened_.empty(); }

std::string Lobby::WaitingSentence() const {
  if (workers_.size() == wanted_size_) {
    return absl::StrCat("waits for streams to open: ", All(wanted_size_, "worker"), " joined: ", NameWorkers());
  }
  const std::string waits =
      absl::StrCat("waits for ", wanted_size_ - workers_.size(), " of ", Count(wanted_size_, "worker"));
  if (workers_.empty()) return absl::StrCat(waits, ": none has joined");
  return absl::StrCat(waits, ": joined ", workers_.size() == 1 ? "is " : "are ", NameWorkers());
}

std::string Lobby::TimeoutSentence() const {
  const std::string within = absl::StrCat(Count(wanted_size_, "worker"), " joined within ", ShowDuration(timeout_));
  if (workers_.empty()) return absl::StrCat("none of ", within);
  if (workers_.size() == wanted_size_)
    return absl::StrCat(All(wanted_size_, "worker"), " joined within ", ShowDuration(timeout_),
                        ", but not every stream was opened: ", NameWorkers());
  return absl::StrCat("only ", workers_.size(), " of ", within, ": ", NameWorkers());
}

void Lobby::Await(absl::Time now, absl::Duration wait, uint32_t wanted_size) {
  wanted_size_ = wanted_size;
  timeout_ = wait;
  timeout_at_ = now + wait;
}

bool Lobby::IsNoticeDue(absl::Time now) {
  if (notice_at_ > now) return false;
  notice_at_ = now + kWaitingInterval;
  return true;
}

absl::Time Lobby::Deadline() const { return std::min({timeout_at_, notice_at_, OpenDeadline()}); }

absl::Time Lobby::OpenDeadline() const {
  return unopened_.empty() ? absl::InfiniteFuture() : unopened_.begin()->second + open_limit_;
}

std::string Lobby::NameWorkers() const {
  constexpr size_t kMostNamed = 8;
  std::string names;
  size_t named = 0;
  for (const auto& [order, worker] : workers_) {
    if (named == kMostNamed) return absl::StrCat(names, " and ", workers_.size() - named, " more");
    absl::StrAppend(&names, named == 0 ? "" : ", ", DescribeWorker(worker.member),
                    worker.stream == 0 ? " (its stream is not open yet)" : "");
    ++named;
  }
  return names;
}

}  // namespace farandole
