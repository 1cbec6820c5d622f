// Functions of Engine for the ends of ranks and of the epoch.
#include "worker/engine/engine.h"

namespace farandole {

void Engine::OnLeft(int rank) {
  table_.log().OnLeft(rank, options_.who[rank]);
  if (rank != options_.rank) return;
  // Only now: the thread that waits in Leave finds that nothing can be submitted any more.
  has_left_.store(true);
  table_.notice().Notify();
}

void Engine::FailAll() {
  batch_.Fail(table_.ended());
  failed_all_.store(true);
  table_.notice().Notify();
}

void Engine::Abort(const absl::Status& reason) {
  if (is_ending_.exchange(true)) return;
  // Before a waiting thread sees it, and ends the process. A rank that shuts down has left before, or its peers see its
  // end.
  if (!stopping_.load()) channel_->StateEnd(reason);
  table_.End(reason);
  stop_transport_(reason);
  aborted_.store(true);
  bell_.RingAll();
}

}  // namespace farandole
