#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_SILENCE_LIMIT_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_SILENCE_LIMIT_H_

namespace farandole {

// Hosts that both reach the coordinator may not reach each other any more, which no socket tells by itself: from now on
// the connection breaks when the other end has acknowledged nothing for so long, or has taken nothing. For a socket
// that has no such limits, as tests have them, nothing changes.
void LimitSilence(int fd, int seconds);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_SILENCE_LIMIT_H_
