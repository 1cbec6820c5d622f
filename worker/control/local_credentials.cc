#include "worker/control/local_credentials.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/control/port_owner.h"

namespace farandole {
namespace {

struct Proof {
  uint16_t port;
  std::string coordinator_users;
  std::string authorization;  // "": none
};

// gRPC calls it when it has chosen a connection, before anything of the call is sent over it.
int AddToken(void* state, grpc_auth_metadata_context /*context*/, grpc_credentials_plugin_metadata_cb /*done*/,
             void* /*user_data*/, grpc_metadata metadata[GRPC_METADATA_CREDENTIALS_PLUGIN_SYNC_MAX], size_t* count,
             grpc_status_code* status, const char** error) {
  const Proof& proof = *static_cast<const Proof*>(state);
  *count = 0;
  *error = nullptr;
  const absl::Status owner = CheckPortOwner(proof.port, proof.coordinator_users);
  *status = static_cast<grpc_status_code>(owner.code());
  if (!owner.ok()) {
    *error = gpr_strdup(std::string(owner.message()).c_str());
  } else if (!proof.authorization.empty()) {
    metadata[0] = {};
    metadata[0].key = grpc_slice_from_static_string("authorization");
    metadata[0].value = grpc_slice_from_copied_buffer(proof.authorization.data(), proof.authorization.size());
    *count = 1;
  }
  return 1;
}

char* Describe(void* /*state*/) { return gpr_strdup("LocalCredentials"); }

void Destroy(void* state) { delete static_cast<Proof*>(state); }

// grpc::MetadataCredentialsFromPlugin makes four threads for each of its objects.
class LocalCallCredentials : public grpc::CallCredentials {
 public:
  LocalCallCredentials(uint16_t port, const std::string& coordinator_users, const std::string& token) {
    grpc_metadata_credentials_plugin plugin = {};
    plugin.get_metadata = AddToken;
    plugin.debug_string = Describe;
    plugin.destroy = Destroy;
    plugin.state = new Proof{port, coordinator_users, token.empty() ? "" : absl::StrCat("Bearer ", token)};
    plugin.type = "farandole-local";
    credentials_ = grpc_metadata_credentials_create_from_plugin(plugin, GRPC_SECURITY_NONE, nullptr);
  }

  ~LocalCallCredentials() override { grpc_call_credentials_release(credentials_); }

  bool ApplyToCall(grpc_call* call) override { return grpc_call_set_credentials(call, credentials_) == GRPC_CALL_OK; }

  std::string DebugString() override { return "LocalCallCredentials"; }

 protected:
  grpc::SecureCallCredentials* AsSecureCredentials() override { return nullptr; }

 private:
  grpc_call_credentials* credentials_;
};

}  // namespace

std::shared_ptr<grpc::CallCredentials> LocalCredentials(uint16_t port, const std::string& coordinator_users,
                                                        const std::string& token) {
  return std::make_shared<LocalCallCredentials>(port, coordinator_users, token);
}

}  // namespace farandole
