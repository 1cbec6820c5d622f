#ifndef FARANDOLE_WORKER_MEASURE_NETWORK_COUNTERS_H_
#define FARANDOLE_WORKER_MEASURE_NETWORK_COUNTERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// The traffic of a host's network since it was started, as the kernel counts it, in this process's network namespace.
struct NetworkCounters {
  // All interfaces but the loopback.
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  // Segments that TCP has sent again.
  uint64_t retransmits = 0;

  // From /proc/net; zeros where that cannot be read.
  static NetworkCounters Read();
  // From the texts of /proc/net/dev and /proc/net/snmp. Lines that are not as the kernel writes them count nothing.
  static NetworkCounters Parse(absl::string_view dev, absl::string_view snmp);
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_NETWORK_COUNTERS_H_
