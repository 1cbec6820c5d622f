#include "server/audit/audit_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
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

absl::Status AuditLog::AllowChange(const Access& caller, const Call& call, absl::Time now) {
  if (directory_.empty()) return absl::OkStatus();
  // Without the lock: it may take milliseconds.
  const bool is_exempt = bounds_.IsExempt(caller, call.target, call.ends_good_token, now);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status bounded = bounds_.Check(caller, !is_exempt, now); !bounded.ok()) return bounded;
  if (absl::Status added = changes_->Add(FieldsOf(PrincipalOf(caller), call, "allowed")); !added.ok()) {
    return absl::UnavailableError(
        absl::StrCat("nothing was changed, since that could not be audited: ", added.message()));
  }
  if (is_exempt) {
    bounds_.CountExempt(caller, call.target, now);
  } else {
    bounds_.CountChange(caller, now);
  }
  return absl::OkStatus();
}

absl::Status AuditLog::CheckBounds(const Access& caller, const Call& call, absl::Time now) const {
  if (directory_.empty()) return absl::OkStatus();
  return bounds_.Check(caller, /*of_tenant=*/call.ends_good_token == nullptr, now);
}

void AuditLog::TellFailed(const Access& caller, const Call& call, const absl::Status& reason, absl::Time now) {
  if (directory_.empty()) return;
  bounds_.CountFailure(caller, now);
  const std::lock_guard<std::mutex> lock(mutex_);
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
