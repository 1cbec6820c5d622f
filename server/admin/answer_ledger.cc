#include "server/admin/answer_ledger.h"

#include <algorithm>
#include <future>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

constexpr char kOwner[] = "admin";
constexpr char kPrefix[] = "key/";
constexpr size_t kMaxKeyBytes = 64;
// For one new answer, so that one change has few rows.
constexpr int kMostForgottenAtOnce = 16;

}  // namespace

AdminCall CallOf(const Access& access, const std::string& idempotency_key, const std::string& call,
                 const std::string& request) {
  return {access.tenant, idempotency_key, call, Sha256(absl::StrCat(access.token_id, "/", request))};
}

absl::StatusOr<std::unique_ptr<AnswerLedger>> AnswerLedger::Load(Store* store) {
  std::unique_ptr<AnswerLedger> ledger(new AnswerLedger(store));
  absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store, kPrefix);
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<uint64_t> revision = AcquireAndWait(store, kOwner);
  if (!revision.ok()) return revision.status();
  absl::MutexLock lock(&ledger->mutex_);
  ledger->revision_ = *revision;
  for (const StoreRow& row : *rows) {
    const std::vector<std::string> parts = absl::StrSplit(row.key, '/');
    Entry entry;
    if (parts.size() != 3 || !entry.record.ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not an AnswerRecord"));
    }
    ledger->last_began_unix_ms_ = std::max(ledger->last_began_unix_ms_, entry.record.at_unix_ms());
    OfTenant& of_tenant = ledger->tenants_[parts[1]];
    of_tenant.response_bytes += entry.record.response().size();
    ++of_tenant.calls;
    const Key key{parts[1], absl::HexStringToBytes(parts[2])};
    ledger->entries_[key] = std::move(entry);
    ledger->SetFinished(key);
  }
  return ledger;
}

absl::Status AnswerLedger::CheckKey(absl::string_view key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("idempotency_key: ", key.size(), " bytes are not 1 to ", kMaxKeyBytes));
}

absl::StatusOr<bool> AnswerLedger::Begin(const AdminCall& call) {
  if (absl::Status status = CheckKey(call.idempotency_key); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = entries_.try_emplace(Key{call.tenant, call.idempotency_key});
  v1::AnswerRecord& record = found->second.record;
  if (is_new) {
    ++tenants_[call.tenant].calls;
    record.set_call(call.call);
    record.set_request_sha256(call.request_sha256);
    last_began_unix_ms_ = std::max(last_began_unix_ms_ + 1, absl::ToUnixMillis(absl::Now()));
    record.set_at_unix_ms(last_began_unix_ms_);
    return true;
  }
  if (record.call() != call.call || record.request_sha256() != call.request_sha256) {
    return absl::InvalidArgumentError(absl::StrCat("idempotency_key \"", absl::CHexEscape(call.idempotency_key),
                                                   "\" was used for another request (", record.call(), ") than this ",
                                                   call.call));
  }
  if (!found->second.is_finished) {
    return absl::UnavailableError(
        absl::StrCat("a ", call.call, " with this idempotency_key is being carried out; retry"));
  }
  return false;
}

int64_t AnswerLedger::BeganUnixMs(const AdminCall& call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find({call.tenant, call.idempotency_key});
  return found == entries_.end() ? 0 : found->second.record.at_unix_ms();
}

std::string AnswerLedger::ResponseTo(const AdminCall& call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find({call.tenant, call.idempotency_key});
  return found == entries_.end() ? "" : found->second.record.response();
}

void AnswerLedger::Finish(const AdminCall& call, StoreBatch changes, std::function<void(absl::Status)> done,
                          const std::string& response) {
  const Key key{call.tenant, call.idempotency_key};
  {
    absl::MutexLock lock(&mutex_);
    entries_[key].record.set_response(response);
    tenants_[call.tenant].response_bytes += response.size();
    changes.puts.push_back({RowKey(key), entries_[key].record.SerializeAsString()});
    std::optional<Key> oldest;
    for (int i = 0; i < kMostForgottenAtOnce && (oldest = OldestToForget(call.tenant)).has_value(); ++i) {
      changes.deletes.push_back(RowKey(*oldest));
      EraseLocked(*oldest);
    }
  }
  Commit(std::move(changes), [this, key, done = std::move(done)](absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (status.ok()) {
        SetFinished(key);
      } else {
        EraseLocked(key);
      }
    }
    done(std::move(status));
  });
}

void AnswerLedger::Abandon(const AdminCall& call) {
  absl::MutexLock lock(&mutex_);
  EraseLocked({call.tenant, call.idempotency_key});
}

void AnswerLedger::SetFinished(const Key& key) {
  Entry& entry = entries_[key];
  entry.is_finished = true;
  tenants_[key.first].finished.insert({entry.record.at_unix_ms(), key.second});
}

void AnswerLedger::EraseLocked(const Key& key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  const v1::AnswerRecord& record = entry->second.record;
  const auto tenant = tenants_.find(key.first);
  tenant->second.response_bytes -= record.response().size();
  tenant->second.finished.erase({record.at_unix_ms(), key.second});
  if (--tenant->second.calls == 0) tenants_.erase(tenant);
  entries_.erase(entry);
}

size_t AnswerLedger::ForgetBefore(absl::Time then, size_t most) {
  const int64_t before = absl::ToUnixMillis(then);
  std::vector<Key> old;
  StoreBatch batch;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [tenant, of_tenant] : tenants_) {
      for (const auto& [at, key] : of_tenant.finished) {
        if (at >= before || old.size() >= most) break;
        old.push_back({tenant, key});
      }
    }
  }
  if (old.empty()) return 0;
  for (const Key& key : old) batch.deletes.push_back(RowKey(key));
  std::promise<absl::Status> answer;
  Commit(std::move(batch), [&](absl::Status status) { answer.set_value(std::move(status)); });
  if (!answer.get_future().get().ok()) return 0;
  absl::MutexLock lock(&mutex_);
  for (const Key& key : old) EraseLocked(key);
  return old.size();
}

void AnswerLedger::Commit(StoreBatch batch, std::function<void(absl::Status)> done) {
  uint64_t revision = 0;
  {
    absl::MutexLock lock(&mutex_);
    revision = revision_;
  }
  if (revision != 0) {
    CommitAs(revision, std::move(batch), std::move(done));
    return;
  }
  store_->Acquire(kOwner,
                  [this, batch = std::move(batch), done = std::move(done)](absl::StatusOr<uint64_t> acquired) mutable {
                    if (!acquired.ok()) {
                      done(acquired.status());
                      return;
                    }
                    {
                      absl::MutexLock lock(&mutex_);
                      revision_ = std::max(revision_, *acquired);
                    }
                    CommitAs(*acquired, std::move(batch), std::move(done));
                  });
}

void AnswerLedger::CommitAs(uint64_t revision, StoreBatch batch, std::function<void(absl::Status)> done) {
  store_->Commit(kOwner, revision, std::move(batch), [this, revision, done = std::move(done)](absl::Status status) {
    if (status.ok()) {
      done(status);
      return;
    }
    {
      absl::MutexLock lock(&mutex_);
      if (revision_ == revision) revision_ = 0;
    }
    done(absl::UnavailableError(absl::StrCat(status.message(), "; nothing was changed, retry")));
  });
}

std::string AnswerLedger::RowKey(const Key& key) {
  return absl::StrCat(kPrefix, key.first, "/", absl::BytesToHexString(key.second));
}

std::optional<AnswerLedger::Key> AnswerLedger::OldestToForget(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end() || found->second.finished.empty()) return std::nullopt;
  const OfTenant& kept = found->second;
  if (kept.response_bytes <= kMaxAnswerBytesKept && kept.calls <= kMaxAnswersKept) return std::nullopt;
  return Key{tenant, kept.finished.begin()->second};
}

}  // namespace farandole
