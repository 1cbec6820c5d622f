#include "server/edge/job_views.h"

#include <iterator>
#include <variant>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Of a kept reply beside its body: its headers, and its key.
constexpr size_t kReplyBytes = 512;

std::string NameOf(const HistoryAsked& history) {
  const absl::Duration latest = history.latest.value_or(absl::ZeroDuration());
  return absl::StrCat(history.rank, " ", history.epoch, " ", absl::ToInt64Seconds(latest), " ", history.host_id);
}

}  // namespace

std::shared_ptr<const HttpReply> JobView::Find(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = replies_.find(name);
  return found == replies_.end() ? nullptr : found->second;
}

void JobView::Keep(const std::string& name, const HttpReply& reply) const {
  const size_t bytes = kReplyBytes + name.size() + reply.body.size();
  auto kept = std::make_shared<const HttpReply>(reply);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > kMostBytes - bytes_ || !replies_.emplace(name, std::move(kept)).second) return;
  bytes_ += bytes;
}

void JobViews::Ask(const Access& viewer, const JobKey& key, std::optional<HistoryAsked> history, Use use) {
  if (history.has_value()) history->is_alone = true;
  const ViewKey view_key(key, history.has_value() ? NameOf(*history) : "");
  std::shared_ptr<const JobView> fresh;
  std::shared_ptr<Question> question;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    DropOld();
    Entry& entry = entries_[view_key];
    if (entry.open == nullptr && entry.view != nullptr && clock_() < entry.view->at() + kFresh) {
      fresh = entry.view;
    } else if (entry.open != nullptr) {
      entry.open->waiting.push_back(std::move(use));
      return;
    } else {
      question = std::make_shared<Question>();
      question->waiting.push_back(std::move(use));
      entry.open = question;
    }
  }
  if (fresh != nullptr) return use(absl::OkStatus(), fresh);
  router_->Push(
      key,
      [&history](CallId call) {
        return JobInspected{call, history};
      },
      [this, viewer, view_key, question](const absl::Status& status, ReplyMessage message) {
        Take(viewer, view_key, question, status, std::move(message));
      },
      IsOfCluster(viewer.role));
}

void JobViews::Expire(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = entries_.lower_bound({key, ""}); entry != entries_.end() && entry->first.first == key; ++entry) {
    entry->second = Entry();
  }
}

void JobViews::Take(const Access& viewer, const ViewKey& key, const std::shared_ptr<Question>& question,
                    const absl::Status& status, ReplyMessage message) {
  absl::Status said = status;
  std::shared_ptr<const JobView> view;
  if (auto* job = std::get_if<v1::GetJobResponse>(&message); said.ok() && job != nullptr) {
    router_->TakePaceOfAnswer(viewer, job->ByteSizeLong());
    view = std::make_shared<const JobView>(std::move(*job), clock_());
  } else if (said.ok()) {
    said = absl::InternalError("the job's answer is of another call's type");
  }
  std::vector<Use> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting.swap(question->waiting);
    if (const auto entry = entries_.find(key); entry != entries_.end() && entry->second.open == question) {
      entry->second = Entry{view, nullptr};
      if (view == nullptr) entries_.erase(entry);
      DropOld();
    }
  }
  for (const Use& use : waiting) use(said, view);
}

void JobViews::DropOld() {
  const absl::Time oldest_kept = clock_() - kKept;
  size_t views = 0;
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const JobView* const view = entry->second.view.get();
    if (entry->second.open == nullptr && (view == nullptr || view->at() < oldest_kept)) {
      entry = entries_.erase(entry);
      continue;
    }
    views += view != nullptr ? 1 : 0;
    bytes += view != nullptr ? view->most_bytes() : 0;
    ++entry;
  }
  while (views > kMostKept || (views > 1 && bytes > kMostKeptBytes)) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second.view == nullptr) continue;
      if (oldest == entries_.end() || entry->second.view->at() < oldest->second.view->at()) oldest = entry;
    }
    --views;
    bytes -= oldest->second.view->most_bytes();
    oldest->second.view = nullptr;
    if (oldest->second.open == nullptr) entries_.erase(oldest);
  }
}

}  // namespace farandole
