#include "server/audit/audit_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/text/plain_text.h"
#include "server/registry/rights.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

// Of texts that callers choose, without control characters, of which JSON makes six each.
std::string Shown(absl::string_view text) { return Plain(text, 512); }

Json PrincipalOf(const Access& caller) {
  Json json;
  json["kind"] = caller.IsOfRun()           ? "run"
                 : caller.IsSigned()        ? "signed token"
                 : caller.IsOfCertificate() ? "certificate"
                                            : "token";
  json["id"] = caller.token_id;
  json["tenant"] = caller.tenant;
  if (caller.IsSigned()) {
    json["issuer"] = caller.signer;
    json["subject"] = caller.subject;
  }
  if (caller.IsOfCertificate()) json["spiffe"] = caller.spiffe;
  if (caller.IsOfRun()) {
    json["job"] = caller.job;
  } else {
    json["role"] = RoleName(caller.role);
  }
  return json;
}

Json FieldsOf(Json principal, const AuditLog::Call& call, absl::string_view outcome) {
  Json json;
  json["principal"] = std::move(principal);
  json["peer"] = call.peer;
  json["method"] = Shown(call.method);
  json["target"] = Shown(call.target);
  json["outcome"] = std::string(outcome);
  return json;
}

// Root may change everything, and so write as many lines as it likes.
bool HasBounds(const Access& caller) { return caller.role != v1::ROOT; }

std::string KeyOf(const Access& caller) { return absl::StrCat(caller.tenant, "\n", caller.token_id); }

// Without its port, which differs with each connection: "ipv4:10.0.0.7".
std::string AddressOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& directory) {
  std::unique_ptr<AuditLog> log(new AuditLog());
  if (directory.empty()) return log;
  log->directory_ = directory;
  AuditChain::Bounds bounds;
  bounds.is_synced = true;
  absl::StatusOr<AuditChain> changes = AuditChain::Open(directory, kChanges, bounds);
  if (!changes.ok()) return changes.status();
  bounds.is_synced = false;
  bounds.files = 4;
  absl::StatusOr<AuditChain> denials = AuditChain::Open(directory, kDenials, bounds);
  if (!denials.ok()) return denials.status();
  {
    const std::lock_guard<std::mutex> lock(log->mutex_);
    log->changes_ = std::make_unique<AuditChain>(*std::move(changes));
  }
  const std::lock_guard<std::mutex> lock(log->denials_mutex_);
  log->denials_ = std::make_unique<AuditChain>(*std::move(denials));
  return log;
}

AuditLog::~AuditLog() {
  const std::lock_guard<std::mutex> lock(denials_mutex_);
  EndWindow();
}

double AuditLog::Tally::Left(const One& one, absl::Time now) const {
  return std::max(0.0, one.count - absl::FDivDuration(now - one.at, pause_));
}

double AuditLog::Tally::Of(const std::string& name, absl::Time now) const {
  const auto found = of_.find(name);
  return found == of_.end() ? 0 : Left(found->second, now);
}

void AuditLog::Tally::Count(const std::string& name, absl::Time now) {
  if (of_.size() >= kMostRemembered && !of_.contains(name)) {
    of_.erase(std::min_element(of_.begin(), of_.end(), [&](const auto& a, const auto& b) {
      return Left(a.second, now) < Left(b.second, now);
    }));
  }
  One& one = of_[name];
  one = {Left(one, now) + 1, now};
}

absl::Status AuditLog::CheckBounds(const Access& caller, bool is_of_tenant, absl::Time now) const {
  if (!HasBounds(caller)) return absl::OkStatus();
  std::string why;
  absl::Duration pause = kChangePause;
  if (failed_.Of(KeyOf(caller), now) >= kMostFailures) {
    why = absl::StrCat(kMostFailures, " changes of ", caller.Text(), " have failed");
    pause = kFailurePause;
  } else if (changed_.Of(KeyOf(caller), now) >= kMostChanges) {
    why = absl::StrCat(caller.Text(), " has made ", kMostChanges, " changes");
  } else if (is_of_tenant && tenants_.Of(caller.tenant, now) >= kTenantTimes * kMostChanges) {
    why = absl::StrCat("tenant ", caller.tenant, " has made ", kTenantTimes * kMostChanges, " changes");
    pause /= kTenantTimes;
  } else {
    return absl::OkStatus();
  }
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("nothing was changed: ", why, ", and in the long run one in ",
                                                absl::FormatDuration(pause), " may; retry after that")),
      pause);
}

absl::Status AuditLog::AllowChange(const Access& caller, const Call& call, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_exempt = call.ends_good_token && ending_.Of(call.target, now) <= 0;
  const bool is_of_tenant = !IsOfCluster(caller.role) && !is_exempt;
  if (changes_ == nullptr) return absl::OkStatus();
  if (absl::Status bounded = CheckBounds(caller, is_of_tenant, now); !bounded.ok()) return bounded;
  const absl::Status added = changes_->Add(FieldsOf(PrincipalOf(caller), call, "allowed"));
  if (added.ok() && HasBounds(caller)) changed_.Count(KeyOf(caller), now);
  if (added.ok() && is_of_tenant) tenants_.Count(caller.tenant, now);
  if (added.ok() && is_exempt) ending_.Count(call.target, now);
  if (added.ok()) return added;
  return absl::UnavailableError(
      absl::StrCat("nothing was changed, since that could not be audited: ", added.message()));
}

void AuditLog::TellFailed(const Access& caller, const Call& call, const absl::Status& reason, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (changes_ == nullptr) return;
  if (HasBounds(caller)) failed_.Count(KeyOf(caller), now);
  Json fields = FieldsOf(PrincipalOf(caller), call, "failed");
  fields["reason"] = Shown(reason.message());
  if (absl::Status added = changes_->Add(fields); !added.ok()) spdlog::error("{}", std::string(added.message()));
}

void AuditLog::TellDenied(const std::string& caller, const Call& call, const std::string& code,
                          const std::string& reason, absl::Time now) {
  const std::lock_guard<std::mutex> lock(denials_mutex_);
  if (denials_ == nullptr) return;
  if (now >= window_ends_) {
    EndWindow();
    window_ends_ = now + kWindow;
  }
  const std::string key = absl::StrCat(caller, "\n", AddressOf(call.peer), "\n", call.method, "\n", code);
  const auto found = counted_.find(key);
  if (found != counted_.end()) {
    ++found->second.more;
    return;
  }
  if (counted_.size() >= kMostInWindow) {
    ++others_;
    return;
  }
  Json fields = FieldsOf(caller, call, "denied");
  fields["code"] = code;
  fields["reason"] = Shown(reason);
  AddDenial(fields);
  counted_[key].fields = std::move(fields);
}

void AuditLog::EndWindow() {
  for (auto& [key, counted] : counted_) {
    if (counted.more == 0) continue;
    counted.fields["count"] = counted.more;
    AddDenial(counted.fields);
  }
  if (others_ > 0) {
    Json fields = FieldsOf("", {"*", "", ""}, "denied");
    fields["reason"] = absl::StrCat("of other callers, or of other calls, than the ", kMostInWindow, " before it");
    fields["count"] = others_;
    AddDenial(fields);
  }
  counted_.clear();
  others_ = 0;
}

void AuditLog::AddDenial(const Json& fields) {
  if (denials_ == nullptr) return;
  if (absl::Status added = denials_->Add(fields); !added.ok()) spdlog::error("{}", std::string(added.message()));
}

}  // namespace farandole
