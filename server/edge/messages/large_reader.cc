#include "server/edge/messages/large_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "server/bytes/byte_ledger.h"

namespace farandole {
namespace {

// Messages whose senders have gone are looked for so often.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(500);

// Calls look(element) for each element of the map, beginning behind `last`, until it returns true.
template <typename Map, typename Look>
void InTurn(Map& map, const std::string& last, const Look& look) {
  auto one = map.upper_bound(last);
  for (size_t count = map.size(); count > 0; --count, ++one) {
    if (one == map.end()) one = map.begin();
    if (look(*one)) return;
  }
}

}  // namespace

LargeReader::LargeReader() : thread_([this] { Run(); }) {}

LargeReader::~LargeReader() { Stop(); }

absl::Status LargeReader::Add(const Sender& sender, Kind kind, int64_t wire_bytes,
                              std::unique_ptr<LargeMessage> message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_stopped_) {
      OfOwner& owner = owners_[sender.owner];
      if (kind == Kind::kCall &&
          (CallsOf(owner, &sender.name) >= kMostCallsOfSender || CallsOf(owner, nullptr) >= kMostCallsOfOwner)) {
        return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                                  "too many calls with large messages wait to be read: at most ", kMostCallsOfSender,
                                  " of a token, and ", kMostCallsOfOwner, " of a tenant, may")),
                              kRetryWhenFull);
      }
      owner.senders[sender.name].push_back({std::move(message), kind, wire_bytes, sender.pace});
    }
  }
  if (message != nullptr) {
    message->Refuse(absl::UnavailableError("the coordinator has stopped; ask again when it is back"));
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

size_t LargeReader::CallsOf(const OfOwner& owner, const std::string* sender) const {
  size_t calls = 0;
  for (const auto& [name, queue] : owner.senders) {
    if (sender != nullptr && name != *sender) continue;
    calls += std::count_if(queue.begin(), queue.end(), [](const Waiting& one) { return one.kind == Kind::kCall; });
  }
  return calls;
}

bool LargeReader::IsPaced(const Waiting& waiting) {
  const int64_t limit = waiting.kind == Kind::kCall ? kLargeCallBytes : kLargeStreamedBytes;
  return waiting.memory_bytes.has_value() && *waiting.memory_bytes > limit && waiting.pace != nullptr;
}

absl::Duration LargeReader::WaitOf(const Waiting& waiting, absl::Time now) {
  return IsPaced(waiting) ? waiting.pace->Wait(now) : absl::ZeroDuration();
}

std::optional<LargeReader::Turn> LargeReader::NextTurn(absl::Time now, absl::Time* until) {
  std::optional<Turn> next;
  *until = absl::InfiniteFuture();
  InTurn(owners_, last_turn_, [&](auto& owner) {
    InTurn(owner.second.senders, owner.second.last_turn, [&](auto& sender) {
      const absl::Duration wait = WaitOf(sender.second.front(), now);
      if (wait == absl::ZeroDuration()) next = Turn{owner.first, sender.first};
      *until = std::min(*until, now + wait);
      return next.has_value();
    });
    return next.has_value();
  });
  return next;
}

LargeReader::Waiting LargeReader::TakeHead(const Turn& turn) {
  const auto owner = owners_.find(turn.owner);
  const auto sender = owner->second.senders.find(turn.sender);
  last_turn_ = turn.owner;
  owner->second.last_turn = turn.sender;
  Waiting head = std::move(sender->second.front());
  sender->second.pop_front();
  if (sender->second.empty()) owner->second.senders.erase(sender);
  return head;
}

void LargeReader::PutBack(const Turn& turn, Waiting waiting) {
  owners_[turn.owner].senders[turn.sender].push_front(std::move(waiting));
}

std::vector<LargeReader::Waiting> LargeReader::TakeGone() {
  std::vector<Waiting> gone;
  for (auto owner = owners_.begin(); owner != owners_.end();) {
    auto& senders = owner->second.senders;
    for (auto sender = senders.begin(); sender != senders.end();) {
      Queue& queue = sender->second;
      const auto first =
          std::stable_partition(queue.begin(), queue.end(), [](const Waiting& one) { return !one.message->IsGone(); });
      std::move(first, queue.end(), std::back_inserter(gone));
      queue.erase(first, queue.end());
      sender = queue.empty() ? senders.erase(sender) : std::next(sender);
    }
    owner = senders.empty() ? owners_.erase(owner) : std::next(owner);
  }
  return gone;
}

std::vector<LargeReader::Waiting> LargeReader::TakeAll() {
  std::vector<Waiting> all;
  for (auto& [owner, of_owner] : owners_) {
    for (auto& [sender, queue] : of_owner.senders) std::move(queue.begin(), queue.end(), std::back_inserter(all));
  }
  owners_.clear();
  return all;
}

bool LargeReader::Attend(Waiting* waiting) {
  if (!waiting->memory_bytes.has_value()) {
    const absl::StatusOr<int64_t> weight = waiting->message->Weigh();
    if (!weight.ok()) {
      if (waiting->pace != nullptr) waiting->pace->Take(kRefusedPrice * waiting->wire_bytes, SteadyNow());
      waiting->message->Refuse(weight.status());
      return true;
    }
    waiting->memory_bytes = *weight;
    if (WaitOf(*waiting, SteadyNow()) > absl::ZeroDuration()) return false;
  }
  const int64_t price = waiting->message->Read();
  if (IsPaced(*waiting)) waiting->pace->Take(price, SteadyNow());
  return true;
}

void LargeReader::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopped_) {
    const absl::Time now = SteadyNow();
    absl::Time until = absl::InfiniteFuture();
    if (now >= looked_ + kBetweenLooks) {
      looked_ = now;
      const std::vector<Waiting> gone = TakeGone();
      lock.unlock();
      for (const Waiting& one : gone) one.message->Refuse(absl::CancelledError("its sender has gone"));
      lock.lock();
      continue;
    }
    const std::optional<Turn> turn = NextTurn(now, &until);
    if (turn.has_value()) {
      Waiting waiting = TakeHead(*turn);
      lock.unlock();
      const bool is_over = Attend(&waiting);
      if (is_over) waiting.message.reset();
      lock.lock();
      if (!is_over) PutBack(*turn, std::move(waiting));
    } else if (owners_.empty()) {
      has_news_.wait(lock, [this] { return is_stopped_ || !owners_.empty(); });
    } else {
      has_news_.wait_until(lock, ToSteadyClock(std::min(until, looked_ + kBetweenLooks)));
    }
  }
  const std::vector<Waiting> all = TakeAll();
  lock.unlock();
  for (const Waiting& one : all)
    one.message->Refuse(absl::UnavailableError("the coordinator has stopped; ask again when it is back"));
}

}  // namespace farandole
