#include "server/job/logged_keeper.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Workers send points again that they have sent within ten seconds before their stream broke.
constexpr absl::Duration kSaveDistance = absl::Seconds(2);
// Rows of this many bytes have room beside them for what LoggedValues::Save adds.
constexpr size_t kMostBytesBeside = 384 << 10;
// For rows that one commit does not take, and while earlier ones are not durable.
constexpr absl::Duration kRestDistance = absl::Milliseconds(50);

}  // namespace

void LoggedKeeper::On(const LoggedListed& event) {
  if (job_.ledger.record().created_unix_ms() == 0) {
    return job_.ledger.Answer<v1::ListLoggedResponse>(
        event.call, absl::NotFoundError(absl::StrCat("no worker of job ", job_.ledger.name(), " has joined yet")));
  }
  job_.ledger.Answer<v1::ListLoggedResponse>(event.call, job_.logged.List(event.names));
}

void LoggedKeeper::Take(uint32_t rank, const v1::Heartbeat& heartbeat) {
  const v1::Epoch& epoch = job_.ledger.record().epoch();
  if (heartbeat.epoch() != epoch.number()) return;
  const int64_t now_ms = absl::ToUnixMillis(job_.ledger.now() + job_.ledger.wall_ahead());
  for (const v1::LoggedPoints& points : heartbeat.logged())
    job_.logged.Take(rank, static_cast<uint32_t>(epoch.members_size()), epoch.number(), points, now_ms);
}

void LoggedKeeper::Settle() {
  if (const std::string news = job_.logged.TakeNews(); !news.empty()) {
    job_.ledger.Tell(LogLine::Level::kWarn, news);
    job_.ledger.MarkChanged();
  }
  if (!job_.logged.IsDirty()) return;
  const absl::Duration distance = job_.IsOngoing() ? kSaveDistance : absl::ZeroDuration();
  save_at_ = std::min(save_at_, job_.ledger.now() + distance);
}

void LoggedKeeper::Save() {
  if (save_at_ > job_.ledger.now()) return;
  if (job_.defers_logged) {
    save_at_ = job_.ledger.now() + kRestDistance;
    return;
  }
  StoreBatch* const batch = &job_.ledger.actions().persist;
  if (BytesOf(*batch) > kMostBytesBeside) return;
  const bool is_all = job_.logged.Save(batch);
  save_at_ = is_all ? absl::InfiniteFuture() : job_.ledger.now() + kRestDistance;
}

}  // namespace farandole
