#include "worker/measure/logged_queue.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

constexpr int64_t kKeptNs = 10'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;
// worker.proto.
constexpr size_t kMostMessages = 8;

}  // namespace

absl::Status LoggedQueue::FindName(absl::string_view text, bool by_rank, uint32_t* name) {
  const auto found = numbers_.find(std::make_pair(std::string(text), by_rank));
  if (found != numbers_.end()) return *name = found->second, absl::OkStatus();
  if (text.empty() || text.size() > kMostNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the name '", Plain(text, 64), "' has ", text.size(),
                                                   " bytes; a name that is logged has 1 to ", kMostNameBytes));
  }
  if (ValidText(text) != text)
    return absl::InvalidArgumentError(
        absl::StrCat("the name '", Plain(text), "' is not UTF-8 without control characters"));
  if (names_.size() == kMostNames) {
    return absl::ResourceExhaustedError(absl::StrCat("'", text, "' is the ", kMostNames + 1,
                                                     "th name that this process logs; ", kMostNames, " is the most"));
  }
  *name = static_cast<uint32_t>(names_.size());
  names_.push_back({std::string(text), by_rank});
  numbers_.emplace(std::make_pair(std::string(text), by_rank), *name);
  return absl::OkStatus();
}

absl::Status LoggedQueue::Log(absl::string_view name, double value, std::optional<int64_t> step, bool by_rank,
                              int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint32_t number = 0;
  if (absl::Status status = FindName(name, by_rank, &number); !status.ok()) return status;
  const int64_t at = step.value_or(names_[number].next_step);
  names_[number].next_step = at == std::numeric_limits<int64_t>::max() ? at : at + 1;
  // Half of those that were sent at a time.
  if (points_.size() == kMostPoints) Forget(first_ + std::max<uint64_t>(1, (unsent_ - first_) / 2));
  if (points_.size() == kMostPoints) return ++dropped_, absl::OkStatus();
  points_.push_back({at, value, now_ns, epoch_, number});
  return absl::OkStatus();
}

void LoggedQueue::Forget(uint64_t end) {
  end = std::min(end, unsent_);
  if (end <= first_) return;
  points_.erase(points_.begin(), points_.begin() + static_cast<std::ptrdiff_t>(end - first_));
  first_ = end;
}

void LoggedQueue::BeginEpoch(uint64_t epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Forget(unsent_);
  sent_.clear();
  epoch_ = epoch;
}

void LoggedQueue::SendAgain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  unsent_ = first_;
  sent_.clear();
}

bool LoggedQueue::HasUnsent() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unsent_ < first_ + points_.size();
}

std::vector<v1::LoggedPoints> LoggedQueue::Take(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!sent_.empty() && sent_.front().at_ns + kKeptNs <= now_ns) {
    Forget(sent_.front().end);
    sent_.pop_front();
  }
  std::vector<v1::LoggedPoints> messages;
  int64_t last_step = 0;
  const uint64_t end = std::min<uint64_t>(first_ + points_.size(), unsent_ + kMostAtOnce);
  const uint64_t begin = unsent_;
  for (; unsent_ < end; ++unsent_) {
    const Point& point = points_[unsent_ - first_];
    if (messages.empty() || messages.back().epoch() != point.epoch) {
      if (messages.size() == kMostMessages) break;
      v1::LoggedPoints& added = messages.emplace_back();
      added.set_first(unsent_);
      added.set_epoch(point.epoch);
      added.set_dropped(dropped_);
      last_step = 0;
      ++messages_;
    }
    Add(point, messages_, now_ns, &last_step, &messages.back());
  }
  if (unsent_ > begin) sent_.push_back({unsent_, now_ns});
  return messages;
}

void LoggedQueue::Add(const Point& point, uint64_t message, int64_t now_ns, int64_t* last_step,
                      v1::LoggedPoints* points) {
  Name& name = names_[point.name];
  if (name.message != message) {
    name.message = message;
    name.index = static_cast<uint32_t>(points->names_size());
    points->add_names(name.text);
    points->add_by_rank(name.by_rank);
  }
  points->add_name(name.index);
  // Unsigned: the difference of any two steps wraps round, and so does the sum at the other end.
  points->add_step(static_cast<int64_t>(static_cast<uint64_t>(point.step) - static_cast<uint64_t>(*last_step)));
  *last_step = point.step;
  points->add_value(point.value);
  points->add_age_ms(static_cast<uint64_t>(std::max<int64_t>(0, now_ns - point.logged_ns) / kNsPerMs));
}

}  // namespace farandole
