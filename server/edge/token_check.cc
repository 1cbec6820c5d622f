#include "server/edge/token_check.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/edge/answers/status.h"
#include "server/edge/caller/caller.h"
#include "server/edge/denials/denial_interceptor.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

absl::string_view ValueOf(const grpc::AuthMetadataProcessor::InputMetadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? absl::string_view() : absl::string_view(found->second.data(), found->second.size());
}

}  // namespace

grpc::Status TokenCheck::Process(const InputMetadata& metadata, grpc::AuthContext* connection, OutputMetadata*,
                                 OutputMetadata*) {
  const absl::string_view path = ValueOf(metadata, ":path");
  if (absl::StartsWith(path, "/grpc.health.v1.Health/")) return grpc::Status::OK;
  const auto authorization = metadata.find("authorization");
  absl::StatusOr<Access> access =
      CallerOf(*tenants_, authorization == metadata.end() ? nullptr : &authorization->second, connection);
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
