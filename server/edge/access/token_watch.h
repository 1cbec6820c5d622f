#ifndef FARANDOLE_SERVER_EDGE_ACCESS_TOKEN_WATCH_H_
#define FARANDOLE_SERVER_EDGE_ACCESS_TOKEN_WATCH_H_

#include <cstdint>
#include <thread>

#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "server/admin/answer_ledger.h"
#include "server/edge/output_router.h"
#include "server/registry/token_table.h"

namespace farandole {

// Ends the streams of tokens that have been revoked, a quarter of a second later at most, and of those that have
// expired, within a second. Keeps when tokens were last used. Owned by the coordinator.
class TokenWatch {
 public:
  // All that is given outlives it.
  TokenWatch(OutputRouter* output_router, TokenTable* tokens, AnswerLedger* ledger);
  ~TokenWatch();

 private:
  void Run();
  void KeepUses();

  OutputRouter* const output_router_;
  TokenTable* const tokens_;
  AnswerLedger* const ledger_;
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ACCESS_TOKEN_WATCH_H_
