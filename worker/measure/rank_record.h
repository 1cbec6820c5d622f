#ifndef FARANDOLE_WORKER_MEASURE_RANK_RECORD_H_
#define FARANDOLE_WORKER_MEASURE_RANK_RECORD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farandole {

// A rank's measurements of itself since its epoch began, in the memory that its host's ranks share: peers read it
// while the rank is stopped, and when it is dead. Zero at first. Each word is written by the rank alone, relaxed, and
// means something by itself; a reader that looks in between may see one word a moment before another. Times are of the
// host's monotonic clock.
struct alignas(64) RankRecord {
  static constexpr size_t kMostSections = 16;
  static constexpr size_t kMostSectionBytes = 64;
  // More than the hosts of which each exchanges with all others (docs/decisions/0008-bulk-between-hosts.md).
  static constexpr size_t kMostPeerHosts = 16;

  // Steps that have begun. A step ends when one of its names is submitted again. Names that the program has given count
  // apart from all others.
  std::atomic<uint64_t> named_steps;
  std::atomic<uint64_t> unnamed_steps;
  // Time for which threads of the program have waited in the library; of this, while a collective ran. Waits that are
  // over. An estimate where waits are short, as not all of them are timed (WaitSampler).
  std::atomic<int64_t> waited_ns;
  std::atomic<int64_t> waited_in_batch_ns;
  // Since when a thread of the program is in a call that waits; 0: none is. A wait of many calls, one after the other,
  // began with the first, and ends when one of them has its result.
  std::atomic<int64_t> waiting_since_ns;
  std::atomic<int64_t> stuck_since_ns;
  // How long the collectives that are over have run, in all. Since when the one that runs has; 0: none runs.
  std::atomic<int64_t> batch_ns;
  std::atomic<int64_t> batch_since_ns;
  // The first slot of the collective that ran last, and the slot in which the rank has submitted last; 0: none.
  std::atomic<uint32_t> batch_slot;
  std::atomic<uint32_t> last_slot;
  // The process's CPU time, and the time for which its main thread was ready to run and had no CPU, as of its last
  // beat.
  alignas(64) std::atomic<int64_t> cpu_ns;
  // Hosts to which it has sent bulk data, in the order in which it began, and what TCP tells of it, as of its last
  // beat: for how long data was under way that the other host would have had room for, and how many bytes it has
  // acknowledged. Only the first `peer_count` are there.
  struct PeerHost {
    std::atomic<uint32_t> host;
    std::atomic<int64_t> sending_ns;
    std::atomic<uint64_t> bytes;
  };
  std::atomic<uint32_t> peer_count;
  PeerHost peers[kMostPeerHosts];
  // Sections of the program, in the order in which it has begun them first, and the time of its own in each, as of its
  // last beat. Only the first `section_count` have a name.
  struct Section {
    char name[kMostSectionBytes];
    std::atomic<uint32_t> name_bytes;
    std::atomic<int64_t> own_ns;
  };
  std::atomic<uint32_t> section_count;
  Section sections[kMostSections];
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_RANK_RECORD_H_
