#include "server/edge/token_check.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/bearer_token.h"
#include "server/edge/denials/denial_interceptor.h"
#include "server/edge/status.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

absl::string_view ValueOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? absl::string_view() : absl::string_view(found->second.data(), found->second.size());
}

}  // namespace

absl::StatusOr<std::string> TokenOf(const grpc::string_ref* authorization) {
  if (authorization == nullptr)
    return absl::UnauthenticatedError("the call carries no token: set the metadata `authorization: Bearer TOKEN`");
  std::optional<std::string> token = BearerToken({authorization->data(), authorization->size()});
  if (!token) return absl::UnauthenticatedError("the metadata `authorization` is not `Bearer TOKEN`");
  return *std::move(token);
}

grpc::Status TokenCheck::Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*, OutputMetadata*) {
  const absl::string_view path = ValueOf(metadata, ":path");
  if (absl::StartsWith(path, "/grpc.health.v1.Health/")) return grpc::Status::OK;
  const auto authorization = metadata.find("authorization");
  const absl::StatusOr<std::string> token = TokenOf(authorization == metadata.end() ? nullptr : &authorization->second);
  absl::StatusOr<Access> access = token.ok() ? tenants_->Authenticate(*token) : token.status();
  if (access.ok() && absl::StartsWith(path, "/grpc.reflection.") && !Has(access->role, Right::kReflect)) {
    access = absl::PermissionDeniedError(absl::StrCat(access->Text(), " may not ", Describe(Right::kReflect)));
  }
  if (access.ok()) return grpc::Status::OK;
  metrics_->CountDeniedCall();
  const grpc::Status denied = ToGrpc(access.status());
  // gRPC does not tell whose connection it is.
  TellIfDenied(audit_, "", std::string(path), "", denied);
  return denied;
}

}  // namespace farandole
