#include "server/edge/messages/large_reader.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "server/bytes/byte_ledger.h"

namespace farandole {
namespace {

// Messages that wait are asked so often whether they wait on.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(500);

absl::Status Stopped() { return absl::UnavailableError("the coordinator has stopped; ask again when it is back"); }

}  // namespace

LargeReader::LargeReader() : thread_([this] { Run(); }) {}

LargeReader::~LargeReader() { Stop(); }

absl::Status LargeReader::Add(const Sender& sender, int64_t wire_bytes, std::unique_ptr<LargeMessage> message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_stopped_) {
      Line& line = lines_[{sender.owner, sender.kind}];
      if (IsIdle(line, SteadyNow())) line = Line();
      line.pace = sender.pace;
      OfSender& own = line.senders[sender.name];
      const size_t own_calls = sender.kind == Kind::kCall ? own.queue.size() : 0;
      if (own_calls > 0 && (own_calls >= kMostCallsOfSender || line.waiting >= kMostCallsOfOwner)) {
        return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                                  "too many calls with large messages wait to be read: at most ", kMostCallsOfSender,
                                  " of a token, and ", kMostCallsOfOwner, " of a tenant, may")),
                              kRetryWhenFull);
      }
      if (own.queue.empty()) own.given = std::max(own.given, line.given);
      own.queue.push_back({std::move(message), wire_bytes});
      ++line.waiting;
      ++waiting_;
    }
  }
  if (message != nullptr) {
    message->Refuse(Stopped());
  } else {
    has_news_.notify_one();
  }
  return absl::OkStatus();
}

void LargeReader::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  has_news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool LargeReader::IsIdle(const Line& line, absl::Time now) {
  return line.waiting == 0 && (line.pace == nullptr || line.pace->Wait(now) == absl::ZeroDuration());
}

bool LargeReader::IsPaced(Kind kind, const Pace* pace, const Waiting& waiting) {
  const int64_t limit = kind == Kind::kCall ? kLargeCallBytes : kLargeStreamedBytes;
  return pace != nullptr && std::max(waiting.wire_bytes, waiting.memory_bytes.value_or(0)) > limit;
}

absl::Duration LargeReader::WaitOf(Kind kind, const Pace* pace, const Waiting& waiting, absl::Time now) {
  return IsPaced(kind, pace, waiting) ? pace->Wait(now) : absl::ZeroDuration();
}

std::optional<LargeReader::ChosenQueue> LargeReader::NextTurn(absl::Time now, absl::Time* until) {
  std::optional<ChosenQueue> next;
  *until = absl::InfiniteFuture();
  auto line = lines_.upper_bound(last_turn_);
  for (size_t count = lines_.size(); count > 0 && !next.has_value(); --count, ++line) {
    if (line == lines_.end()) line = lines_.begin();
    int64_t least = 0;
    for (const auto& [name, sender] : line->second.senders) {
      if (sender.queue.empty()) continue;
      const absl::Duration wait = WaitOf(line->first.second, line->second.pace.get(), sender.queue.front(), now);
      *until = std::min(*until, now + wait);
      if (wait > absl::ZeroDuration() || (next.has_value() && sender.given >= least)) continue;
      next = ChosenQueue{line->first, name, line->second.pace};
      least = sender.given;
    }
  }
  return next;
}

LargeReader::Waiting LargeReader::TakeHead(const ChosenQueue& turn) {
  last_turn_ = turn.line;
  Line& line = lines_[turn.line];
  OfSender& sender = line.senders[turn.sender];
  line.given = std::max(line.given, sender.given);
  Waiting head = std::move(sender.queue.front());
  sender.queue.pop_front();
  --line.waiting;
  --waiting_;
  return head;
}

void LargeReader::EndTurn(const ChosenQueue& turn, std::optional<int64_t> cost, Waiting waiting) {
  Line& line = lines_[turn.line];
  line.pace = turn.pace;
  OfSender& sender = line.senders[turn.sender];
  if (cost.has_value()) {
    sender.given += std::max<int64_t>(1, *cost);
    return;
  }
  sender.queue.push_front(std::move(waiting));
  ++line.waiting;
  ++waiting_;
}

std::vector<LargeReader::Waiting> LargeReader::Take(absl::FunctionRef<bool(const Waiting&)> is_taken) {
  std::vector<Waiting> taken;
  for (auto& [key, line] : lines_) {
    for (auto& [name, sender] : line.senders) {
      std::deque<Waiting>& queue = sender.queue;
      const auto first =
          std::stable_partition(queue.begin(), queue.end(), [&](const Waiting& one) { return !is_taken(one); });
      line.waiting -= queue.end() - first;
      waiting_ -= queue.end() - first;
      std::move(first, queue.end(), std::back_inserter(taken));
      queue.erase(first, queue.end());
    }
  }
  return taken;
}

void LargeReader::Forget(absl::Time now) {
  for (auto line = lines_.begin(); line != lines_.end();) {
    auto& senders = line->second.senders;
    for (auto one = senders.begin(); one != senders.end();) {
      const bool is_forgotten = one->second.queue.empty() && one->second.given <= line->second.given;
      one = is_forgotten ? senders.erase(one) : std::next(one);
    }
    line = IsIdle(line->second, now) ? lines_.erase(line) : std::next(line);
  }
}

void LargeReader::Look(std::unique_lock<std::mutex>* lock) {
  // They stay where they are meanwhile: this thread alone takes them away.
  std::vector<LargeMessage*> waiting;
  for (const auto& [key, line] : lines_) {
    for (const auto& [name, sender] : line.senders) {
      for (const Waiting& one : sender.queue) waiting.push_back(one.message.get());
    }
  }
  lock->unlock();
  absl::flat_hash_map<const LargeMessage*, absl::Status> ended;
  for (LargeMessage* const one : waiting) {
    if (absl::Status status = one->WaitOn(); !status.ok()) ended.emplace(one, std::move(status));
  }
  lock->lock();
  const std::vector<Waiting> taken = Take([&](const Waiting& one) { return ended.contains(one.message.get()); });
  Forget(SteadyNow());
  lock->unlock();
  for (const Waiting& one : taken) one.message->Refuse(ended.at(one.message.get()));
  lock->lock();
}

std::optional<int64_t> LargeReader::Attend(const ChosenQueue& turn, Waiting* waiting) {
  const Kind kind = turn.line.second;
  Pace* const pace = turn.pace.get();
  if (!waiting->memory_bytes.has_value()) {
    const absl::StatusOr<int64_t> weight = waiting->message->Weigh();
    if (!weight.ok()) {
      if (pace != nullptr) pace->Take(kRefusedPrice * waiting->wire_bytes, SteadyNow());
      waiting->message->Refuse(weight.status());
      return kRefusedPrice * waiting->wire_bytes;
    }
    waiting->memory_bytes = *weight;
    const absl::Duration wait = WaitOf(kind, pace, *waiting, SteadyNow());
    // Its sender may go away before it is read.
    if (IsPaced(kind, pace, *waiting)) pace->Take(waiting->wire_bytes, SteadyNow());
    if (wait > absl::ZeroDuration()) return std::nullopt;
  }
  const int64_t price = waiting->message->Read();
  if (IsPaced(kind, pace, *waiting)) pace->Take(price - waiting->wire_bytes, SteadyNow());
  return price;
}

void LargeReader::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopped_) {
    const absl::Time now = SteadyNow();
    absl::Time until = absl::InfiniteFuture();
    if (now >= looked_ + kBetweenLooks) {
      looked_ = now;
      Look(&lock);
      continue;
    }
    const std::optional<ChosenQueue> turn = NextTurn(now, &until);
    if (turn.has_value()) {
      Waiting waiting = TakeHead(*turn);
      lock.unlock();
      const std::optional<int64_t> cost = Attend(*turn, &waiting);
      if (cost.has_value()) waiting.message.reset();
      lock.lock();
      EndTurn(*turn, cost, std::move(waiting));
    } else if (waiting_ == 0) {
      has_news_.wait(lock, [this] { return is_stopped_ || waiting_ > 0; });
    } else {
      has_news_.wait_until(lock, ToSteadyClock(std::min(until, looked_ + kBetweenLooks)));
    }
  }
  const std::vector<Waiting> all = Take([](const Waiting&) { return true; });
  lock.unlock();
  for (const Waiting& one : all) one.message->Refuse(Stopped());
}

}  // namespace farandole
