#include "worker/engine/engine_options.h"

#include <algorithm>

namespace farandole {

SubmissionOptions TableOptions(const EngineOptions& options, ReadyChannel* channel, ControlLink* link,
                               RankMeter* meter) {
  SubmissionOptions table = {options.rank, options.size, channel, link};
  table.clock = options.clock;
  table.arenas = options.arenas;
  table.next_handles = options.next_handles;
  table.timeline = options.timeline;
  // Half of the slots: ranks that submit in different orders ask for different names.
  table.most_asked = std::max<size_t>(1, options.max_slots / 2);
  table.meter = meter;
  table.flight = options.flight;
  table.epoch = options.epoch;
  return table;
}

Orderer::Options OrdererOptions(const EngineOptions& options) {
  Orderer::Options orderer;
  orderer.fusion_bytes = options.fusion_bytes;
  // The rest is for names that are added while all others are in use, and for names that the coordinator does not know
  // yet.
  orderer.slots = std::max<size_t>(1, size_t{options.max_slots} * 3 / 4);
  return orderer;
}

}  // namespace farandole
