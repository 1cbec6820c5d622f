#include "server/job/rules/history.h"

#include "server/job/rules/wording.h"

namespace farandole {

void History::Add(absl::string_view sentence, absl::Time at) {
  if (entries_.size() == static_cast<int>(kMostEntries)) entries_.DeleteSubrange(0, 1);
  v1::HistoryEntry* entry = entries_.Add();
  entry->set_at_unix_ms(absl::ToUnixMillis(at + wall_ahead_));
  entry->set_sentence(Plain(sentence, kMostSentenceBytes));
}

}  // namespace farandole
