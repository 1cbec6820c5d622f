#ifndef FARANDOLE_WORKER_ENGINE_ENGINE_OPTIONS_H_
#define FARANDOLE_WORKER_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/core/clock.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/measure/flight_page.h"
#include "worker/measure/rank_meter.h"
#include "worker/order/orderer.h"
#include "worker/order/ready_channel.h"

namespace farandole {

struct EngineOptions {
  int rank = 0;
  int size = 1;
  // By rank, for sentences: "rank 1 (pid 4711 on host a)".
  std::vector<std::string> who;
  int64_t fusion_bytes = 64 << 20;
  // How many times a waiting thread checks before it yields; 32 take about a microsecond. Fewer where ranks share
  // cores: each check delays the rank that must run first.
  int checks_before_yield = 32;
  // How long a waiting thread yields before it sleeps.
  int64_t yield_ns = 50'000;
  // Each rank of this host can have a core of its own. A thread that shares its CPU with another waiting rank sleeps at
  // once: yielding moves neither, while the kernel wakes a sleeper on an idle CPU.
  bool has_own_core = true;
  // False: there is no data thread, and nothing happens but in calls; for a simulation, which calls Attend.
  bool has_data_thread = true;
  // Where tensors may lie that the transport reduces in place; null: nowhere. Outlives the engine.
  const ArenaTable* arenas = nullptr;
  // Measures the ages of submissions.
  ClockNs clock = MonotonicNs;
  // As Epoch.max_slots.
  uint32_t max_slots = 32768;
  // As SubmissionTable::next_handles of the process's last engine; 0: it had none.
  int64_t next_handles = 0;
  // Records submissions; may be null. Outlives the engine.
  Timeline* timeline = nullptr;
  // The rank's flight recorder, and the number of the epoch that it begins; may be null. Outlives the engine.
  FlightPage* flight = nullptr;
  uint64_t epoch = 0;
};

// The options of the engine's SubmissionTable.
SubmissionOptions TableOptions(const EngineOptions& options, ReadyChannel* channel, ControlLink* link,
                               RankMeter* meter);
Orderer::Options OrdererOptions(const EngineOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_ENGINE_OPTIONS_H_
