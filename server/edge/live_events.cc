#include "server/edge/live_events.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/job_state.h"
#include "nlohmann/json.hpp"
#include "web/form_text.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

// A proxy may end a connection that is silent for half a minute.
constexpr absl::Duration kBreath = absl::Seconds(15);
// How long a reader goes on after its session or its token has ended.
constexpr absl::Duration kBetweenChecks = absl::Milliseconds(500);
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
constexpr absl::Duration kBetweenPulses = absl::Seconds(2);

// Something else than numbers that change all the time.
bool IsNews(const v1::JobSummary& before, const v1::JobSummary& now) {
  return before.state() != now.state() || before.reason() != now.reason() || before.epoch() != now.epoch() ||
         before.size() != now.size() || before.wanted_size() != now.wanted_size() ||
         before.last_stall() != now.last_stall() || before.waiting() != now.waiting() ||
         before.resets() != now.resets() || before.blocker().empty() != now.blocker().empty();
}

bool IsRestless(const v1::JobSummary& before, const v1::JobSummary& now) {
  return before.batches_per_second() != now.batches_per_second() ||
         before.steps_per_second() != now.steps_per_second() || before.blocker() != now.blocker();
}

Json PulseJson(const v1::JobSummary& job) {
  Json json;
  json["tenant"] = job.tenant();
  json["job"] = job.job();
  json["batches_per_second"] = job.batches_per_second();
  json["steps_per_second"] = StepRateJson(job);
  json["blocker"] = job.blocker();
  return json;
}

JobKey KeyOf(const v1::JobSummary& job) { return {job.tenant(), job.job()}; }

}  // namespace

LiveEvents::LiveEvents(const JobRegistry* registry, CallerOf caller_of, std::function<void(const JobKey&)> on_news,
                       std::function<absl::Time()> clock)
    : registry_(registry), caller_of_(std::move(caller_of)), on_news_(std::move(on_news)), clock_(std::move(clock)) {}

HttpReply LiveEvents::Open(const HttpRequest& request, const HttpIdentity& identity) {
  if (readers_.size() >= kMostReaders && !MakePlaceFor(OwnerOf(identity))) {
    return HttpError(503, absl::StrCat(readers_.size(), " pages follow the jobs, which is the most that may"));
  }
  Reader reader{std::make_shared<EventStream>(), request, identity, {}};
  for (const std::string& job : QueryValues(request.query, "job")) {
    const std::pair<std::string, std::string> key = absl::StrSplit(job, absl::MaxSplits('/', 1));
    const bool may_see = OwnerOf(identity) == kClusterOwner || identity.tenant == key.first;
    if (reader.watched.size() < kMostWatched && may_see) reader.watched.push_back({key.first, key.second});
  }
  const absl::Time now = clock_();
  if (now > read_at_ + kRemembered) {
    logs_.clear();
    restless_.clear();
    shown_.clear();
    seen_ = 0;
    for (const JobRegistry::Shown& job : registry_->ListChanged(&seen_)) shown_[KeyOf(*job)] = {job, now};
  }
  read_at_ = now;
  reader.stream->Send("retry: 1000\n\n");
  const std::string after = QueryValue(request.query, "after");
  const Log& log = LogOf(OwnerOf(identity), now);
  Replay(log, reader, request.last_event.empty() ? after : request.last_event);
  HttpReply reply;
  reply.stream = reader.stream;
  readers_.push_back(std::move(reader));
  return reply;
}

bool LiveEvents::MakePlaceFor(const std::string& owner) {
  std::map<std::string, size_t> counts;
  for (const Reader& reader : readers_) ++counts[OwnerOf(reader.identity)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end() || counts[owner] + 1 >= most->second) return false;
  const auto newest = std::find_if(readers_.rbegin(), readers_.rend(),
                                   [&](const Reader& reader) { return OwnerOf(reader.identity) == most->first; });
  newest->stream->End();
  readers_.erase(std::prev(newest.base()));
  return true;
}

LiveEvents::Log& LiveEvents::LogOf(const std::string& audience, absl::Time now) {
  const auto [found, is_new] = logs_.try_emplace(audience);
  Log& log = found->second;
  if (is_new) {
    log.life = absl::StrCat(absl::Hex(absl::ToUnixMicros(now)));
    log.forgotten = log.last = 1;
  }
  log.read_at = now;
  return log;
}

void LiveEvents::Replay(const Log& log, const Reader& reader, const std::string& after) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(after, absl::MaxSplits('.', 1));
  uint64_t number = 0;
  const bool is_known = parts.first == log.life && absl::SimpleAtoi(parts.second, &number) && number >= log.forgotten &&
                        number <= log.last;
  if (!is_known) {
    reader.stream->Send(absl::StrCat("id: ", log.life, ".", log.last, "\nevent: reset\ndata: {}\n\n"));
    return;
  }
  for (const Event& event : log.kept) {
    if (event.number > number) reader.stream->Send(event.text);
  }
}

void LiveEvents::Tick() {
  const absl::Time now = clock_();
  DropReaders(now);
  if (!readers_.empty()) read_at_ = now;
  for (const Reader& reader : readers_) LogOf(OwnerOf(reader.identity), now);
  for (auto log = logs_.begin(); log != logs_.end();)
    log = now > log->second.read_at + kRemembered ? logs_.erase(log) : std::next(log);
  if (now > read_at_ + kRemembered) return;
  TellChanges(now);
  TellNumbers(now);
  TellLooks(now);
  TellDeletions(now);
}

void LiveEvents::TellDeletions(absl::Time now) {
  for (const std::string& tenant : registry_->ListForgetful(&seen_deletions_)) {
    deletions_.insert(tenant);
    deletions_.insert(kClusterOwner);
  }
  for (auto told = told_deletions_.begin(); told != told_deletions_.end();)
    told = now >= told->second + kBetweenDeletions ? told_deletions_.erase(told) : std::next(told);
  for (auto audience = deletions_.begin(); audience != deletions_.end();) {
    if (told_deletions_.find(*audience) != told_deletions_.end()) {
      ++audience;
      continue;
    }
    if (*audience != kClusterOwner) ForgetDeleted(*audience);
    Publish({*audience}, "reset", "{}");
    told_deletions_[*audience] = now;
    audience = deletions_.erase(audience);
  }
}

void LiveEvents::ForgetDeleted(const std::string& tenant) {
  for (auto shown = shown_.lower_bound({tenant, ""}); shown != shown_.end() && shown->first.tenant == tenant;) {
    const bool is_gone = !registry_->IsShown(shown->first);
    if (is_gone) restless_.erase(shown->first);
    shown = is_gone ? shown_.erase(shown) : std::next(shown);
  }
}

void LiveEvents::DropReaders(absl::Time now) {
  if (now >= checked_ + kBetweenChecks) {
    checked_ = now;
    for (const Reader& reader : readers_) {
      const HttpCaller caller = caller_of_(reader.request);
      const bool is_same = !caller.refusal.has_value() && caller.identity.access == reader.identity.access &&
                           caller.identity.tenant == reader.identity.tenant;
      if (!is_same) reader.stream->End();
    }
  }
  if (now >= breathed_ + kBreath) {
    breathed_ = now;
    for (const Reader& reader : readers_) reader.stream->Send(":\n\n");
  }
  const auto has_left = [](const Reader& reader) { return !reader.stream->is_open(); };
  readers_.erase(std::remove_if(readers_.begin(), readers_.end(), has_left), readers_.end());
}

void LiveEvents::TellChanges(absl::Time now) {
  std::vector<JobRegistry::Shown> news;
  // Of each audience.
  std::map<std::string, size_t> counts;
  for (const JobRegistry::Shown& job : registry_->ListChanged(&seen_)) {
    const JobKey key = KeyOf(*job);
    Shown& shown = shown_[key];
    if (IsNews(*shown.summary, *job)) {
      on_news_(key);
      restless_.erase(key);
      shown = {job, now};
      for (const std::string& audience : {key.tenant, std::string(kClusterOwner)}) ++counts[audience];
      news.push_back(job);
    } else if (IsRestless(*shown.summary, *job)) {
      restless_[key] = job;
    }
  }
  for (const auto& [audience, count] : counts) {
    if (count > kMostAtOnce) Publish({audience}, "reset", "{}");
  }
  for (const JobRegistry::Shown& job : news) {
    std::vector<std::string> told;
    for (const std::string& audience : {job->tenant(), std::string(kClusterOwner)}) {
      if (counts[audience] <= kMostAtOnce && logs_.find(audience) != logs_.end()) told.push_back(audience);
    }
    if (!told.empty()) Publish(told, "jobs", ShowJson(Json{{"jobs", Json::array({SummaryJson(*job)})}}, -1));
  }
}

// Tenants take turns; of each, those that were told of longest ago come first.
void LiveEvents::TellNumbers(absl::Time now) {
  std::vector<JobKey> due;
  for (const auto& [key, job] : restless_) {
    if (now >= shown_[key].pulsed + kBetweenPulses) due.push_back(key);
  }
  std::sort(due.begin(), due.end(),
            [this](const JobKey& a, const JobKey& b) { return shown_[a].pulsed < shown_[b].pulsed; });
  std::map<std::string, size_t> counts;
  std::map<JobKey, size_t> turns;
  for (const JobKey& key : due) turns[key] = counts[key.tenant]++;
  std::stable_sort(due.begin(), due.end(), [&](const JobKey& a, const JobKey& b) { return turns[a] < turns[b]; });
  size_t bytes = 0;
  for (const JobKey& key : due) {
    if (bytes >= kPulseBytes) return;
    const std::string data = ShowJson(Json{{"jobs", Json::array({PulseJson(*restless_[key])})}}, -1);
    bytes += data.size();
    shown_[key] = {std::move(restless_[key]), now};
    restless_.erase(key);
    Publish({key.tenant, kClusterOwner}, "jobs", data);
  }
}

void LiveEvents::TellLooks(absl::Time now) {
  if (now < looked_ + kBetweenLooks) return;
  looked_ = now;
  for (const Reader& reader : readers_) {
    for (const JobKey& key : reader.watched) {
      const auto shown = shown_.find(key);
      if (shown == shown_.end() || !IsActive(shown->second.summary->state())) continue;
      reader.stream->Send(
          absl::StrCat("event: look\ndata: ", ShowJson(Json{{"tenant", key.tenant}, {"job", key.job}}, -1), "\n\n"));
    }
  }
}

void LiveEvents::Publish(const std::vector<std::string>& audiences, const std::string& kind, const std::string& data) {
  for (const std::string& audience : audiences) {
    const auto found = logs_.find(audience);
    if (found == logs_.end()) continue;
    Log& log = found->second;
    ++log.last;
    Event event{log.last, absl::StrCat("id: ", log.life, ".", log.last, "\nevent: ", kind, "\ndata: ", data, "\n\n")};
    for (const Reader& reader : readers_) {
      if (OwnerOf(reader.identity) == audience) reader.stream->Send(event.text);
    }
    log.kept.push_back(std::move(event));
    if (log.kept.size() <= kMostKept) continue;
    log.forgotten = log.kept.front().number;
    log.kept.pop_front();
  }
}

}  // namespace farandole
