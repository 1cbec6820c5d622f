#ifndef FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_LIBRARY_H_
#define FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_LIBRARY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/core/doorbell.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/transport.h"

namespace farandole {

// libfarandole_gloo.so, which has the GlooTransport and lies beside the program or library that this code is part of.
// It is loaded only if a setting asks for the transport, since it needs Gloo's library and all dependencies of that;
// and it stays loaded. It is of the same build, so that both sides know the same types.
class GlooLibrary {
 public:
  // Log it once for each transport that is made.
  static constexpr absl::string_view kWarning =
      "FARANDOLE_TRANSPORT=gloo: bulk data travels over connections that are not authenticated; use it only on "
      "networks "
      "whose every host is trusted, else leave it out or set it to tcp";

  // INVALID_ARGUMENT: it is missing, cannot be loaded (the system's words are in the text) or is of another version.
  static absl::StatusOr<GlooLibrary> Load();

  // As the constructor of GlooTransport.
  std::unique_ptr<Transport> MakeTransport(int rank, int size, PeerPort* port, Doorbell* bell) const;

  // The library's exports under these names.
  using MakeFunction = Transport* (*)(int rank, int size, PeerPort* port, Doorbell* bell);
  using VersionFunction = const char* (*)();
  static constexpr const char* kMakeName = "farandole_gloo_make_transport";
  static constexpr const char* kVersionName = "farandole_gloo_version";

 private:
  explicit GlooLibrary(MakeFunction make) : make_(make) {}

  MakeFunction make_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_GLOO_GLOO_LIBRARY_H_
