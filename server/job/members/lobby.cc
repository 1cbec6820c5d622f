#include "server/job/members/lobby.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {

namespace {

// How many workers a job wants: "wanted_size is 4, min_size 2 and max_size 8".
std::string ShowSizes(uint32_t wanted_size, const v1::Elastic* elastic) {
  if (elastic == nullptr) return absl::StrCat("wanted_size is ", wanted_size);
  return absl::StrCat("wanted_size is ", wanted_size, ", min_size ", elastic->min_size(), " and max_size ",
                      elastic->max_size());
}

}  // namespace

absl::Status Lobby::CheckTerms(const v1::JoinRequest& request) const {
  const v1::Elastic* const asked = request.has_elastic() ? &request.elastic() : nullptr;
  const v1::Elastic* const present = elastic_.has_value() ? &*elastic_ : nullptr;
  const std::string sizes = ShowSizes(request.wanted_size(), asked), present_sizes = ShowSizes(wanted_size_, present);
  if (!workers_.empty() && sizes != present_sizes) {
    // If only the one number differs, it alone is named.
    const bool is_short = asked == nullptr && present == nullptr;
    return absl::InvalidArgumentError(absl::StrCat(sizes, " for ", DescribeWorker(request.member()), ", and ",
                                                   is_short ? absl::StrCat(wanted_size_) : present_sizes, " for ",
                                                   DescribeWorker(workers_.begin()->second.member),
                                                   ", which waits already"));
  }
  if (Has(request.member().incarnation())) return absl::OkStatus();
  const bool is_elastic = asked != nullptr;
  const uint32_t most = is_elastic ? asked->max_size() : request.wanted_size();
  if (most > max_workers_) {
    return absl::ResourceExhaustedError(absl::StrCat(is_elastic ? "max_size is " : "wanted_size is ", most,
                                                     "; this coordinator takes at most ", max_workers_,
                                                     " workers per job"));
  }
  if (is_elastic && workers_.size() >= max_workers_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Count(workers_.size(), "worker"), " of the job wait already; ", max_workers_, " is the most"));
  }
  if (!is_elastic && !workers_.empty() && workers_.size() >= wanted_size_) {
    return absl::AlreadyExistsError(
        absl::StrCat("the job has ", All(wanted_size_, "worker"), " that it wants already: ", NameWorkers()));
  }
  return absl::OkStatus();
}

void Lobby::SetTerms(const v1::JoinRequest& request, absl::Time now) {
  wanted_size_ = request.wanted_size();
  elastic_.reset();
  if (request.has_elastic()) elastic_ = request.elastic();
  stall_warning_ = absl::Milliseconds(request.stall_warning_ms());
  timeout_ = absl::Milliseconds(request.join_timeout_ms());
  timeout_at_ = now + timeout_;
  notice_at_ = now + kWaitingInterval;
  is_expired_ = false;
}

absl::Status Lobby::Join(const v1::JoinRequest& request, std::optional<uint32_t> old_rank, absl::Time now) {
  if (absl::Status status = CheckTerms(request); !status.ok()) return status;
  v1::Member member = request.member();
  if (Has(member.incarnation())) return absl::OkStatus();
  member.set_launch_index(request.launch_index());
  const size_t bytes = workers_.empty() ? 0 : member_bytes_;
  if (bytes + member.ByteSizeLong() > kMostMemberBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("with ", DescribeWorker(member), " the members of the job would describe themselves in ",
                     bytes + member.ByteSizeLong(), " bytes; ", kMostMemberBytes, " is the most"));
  }
  if (workers_.empty()) SetTerms(request, now);
  member_bytes_ = bytes + member.ByteSizeLong();
  const uint64_t order = ++joins_;
  if (old_rank.has_value()) survivors_[*old_rank] = order;
  order_of_[member.incarnation()] = order;
  workers_[order] = {std::move(member), request.launch_index(), now, 0, old_rank, !request.predecessor().empty()};
  unopened_[order] = now;
  return absl::OkStatus();
}

StreamId Lobby::Open(const std::string& incarnation, StreamId stream) {
  const uint64_t order = order_of_.at(incarnation);
  Worker& worker = workers_.at(order);
  if (unopened_.erase(order) > 0 && worker.old_rank.has_value()) ++opened_survivors_;
  return std::exchange(worker.stream, stream);
}

void Lobby::Remove(const std::string& incarnation) {
  if (const auto it = order_of_.find(incarnation); it != order_of_.end()) Extract(workers_.find(it->second));
}

Lobby::Worker Lobby::Extract(Workers::iterator it) {
  Worker worker = std::move(it->second);
  member_bytes_ -= worker.member.ByteSizeLong();
  const bool was_opened = unopened_.erase(it->first) == 0;
  if (worker.old_rank.has_value()) {
    survivors_.erase(*worker.old_rank);
    if (was_opened) --opened_survivors_;
  }
  order_of_.erase(worker.member.incarnation());
  workers_.erase(it);
  if (workers_.empty()) notice_at_ = absl::InfiniteFuture();
  return worker;
}

std::vector<Lobby::Worker> Lobby::RemoveUnopened(absl::Time now) {
  std::vector<Worker> removed;
  while (!unopened_.empty() && unopened_.begin()->second + open_limit() <= now) {
    removed.push_back(Extract(workers_.find(unopened_.begin()->first)));
  }
  return removed;
}

std::vector<Lobby::Worker> Lobby::Take() {
  std::vector<Worker> taken;
  taken.reserve(workers_.size());
  for (auto& [order, worker] : workers_) taken.push_back(std::move(worker));
  workers_.clear();
  order_of_.clear();
  unopened_.clear();
  member_bytes_ = 0;
  survivors_.clear();
  opened_survivors_ = 0;
  is_expired_ = false;
  wanted_size_ = 0;
  timeout_at_ = notice_at_ = absl::InfiniteFuture();
  return taken;
}

std::vector<Lobby::Worker> Lobby::TakeOpened(size_t most) {
  // Is new, launch index, order of joining.
  std::vector<std::tuple<bool, uint32_t, uint64_t>> places;
  for (const auto& [order, worker] : workers_) {
    if (worker.stream != 0) places.emplace_back(!worker.old_rank.has_value(), worker.launch_index, order);
  }
  std::sort(places.begin(), places.end());
  if (places.size() > most) places.resize(most);
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return std::get<2>(a) < std::get<2>(b); });
  std::vector<Worker> taken;
  taken.reserve(places.size());
  for (const auto& place : places) taken.push_back(Extract(workers_.find(std::get<2>(place))));
  return taken;
}

std::vector<std::string> Lobby::IncarnationsOn(const std::string& hostname) const {
  std::vector<std::string> incarnations;
  for (const auto& [order, worker] : workers_) {
    if (worker.member.hostname() == hostname) incarnations.push_back(worker.member.incarnation());
  }
  return incarnations;
}

const Lobby::Worker* Lobby::FindLaunched(uint32_t launch_index) const {
  for (const auto& [order, worker] : workers_) {
    if (worker.launch_index == launch_index) return &worker;
  }
  return nullptr;
}

const Lobby::Worker* Lobby::FindSurvivor(uint32_t old_rank) const {
  const auto found = survivors_.find(old_rank);
  return found == survivors_.end() ? nullptr : &workers_.at(found->second);
}

void Lobby::HastenTimeout(absl::Time at) {
  if (!is_expired_) timeout_at_ = std::min(timeout_at_, at);
}

void Lobby::Expire() {
  is_expired_ = true;
  timeout_at_ = absl::InfiniteFuture();
}

bool Lobby::IsComplete() const { return !workers_.empty() && workers_.size() == wanted_size_ && unopened_.empty(); }

std::string Lobby::WaitingSentence() const {
  if (workers_.size() >= wanted_size_) {
    return absl::StrCat("waits for streams to open: ", All(workers_.size(), "worker"), " joined: ", NameWorkers());
  }
  const std::string waits =
      absl::StrCat("waits for ", wanted_size_ - workers_.size(), " of ", Count(wanted_size_, "worker"));
  if (workers_.empty()) return absl::StrCat(waits, ": none has joined");
  return absl::StrCat(waits, ": joined ", workers_.size() == 1 ? "is " : "are ", NameWorkers());
}

std::string Lobby::TimeoutSentence() const {
  const std::string within = absl::StrCat(Count(wanted_size_, "worker"), " joined within ", ShowDuration(timeout_));
  if (workers_.empty()) return absl::StrCat("none of ", within);
  if (workers_.size() >= wanted_size_)
    return absl::StrCat(All(workers_.size(), "worker"), " joined within ", ShowDuration(timeout_),
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
  return unopened_.empty() ? absl::InfiniteFuture() : unopened_.begin()->second + open_limit();
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
