// The exports of libfarandole_gloo.so; GlooLibrary looks for them.
#include "base/version.h"
#include "worker/transport/gloo/gloo_transport.h"

extern "C" {

const char* farandole_gloo_version() { return farandole::kVersion; }

farandole::Transport* farandole_gloo_make_transport(int rank, int size, farandole::PeerPort* port,
                                                    farandole::Doorbell* bell) {
  return new farandole::GlooTransport(rank, size, port, bell);
}

}  // extern "C"
