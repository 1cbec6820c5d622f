#include "worker/transport/tcp/silence_limit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace farandole {
namespace {

// The first probe of an idle connection comes after one part of the limit, the others in the same steps.
constexpr int kProbes = 4;

}  // namespace

void LimitSilence(int fd, int seconds) {
  const int on = 1;
  const int step = seconds / (kProbes + 1);
  const unsigned int unacknowledged_ms = static_cast<unsigned int>(seconds) * 1000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &step, sizeof(step));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof(step));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

}  // namespace farandole
