#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_NAME_TABLE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_NAME_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/engine/submissions/book/request_memo.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/measure/flight_recorder.h"

namespace farandole {

// The coordinator's statement on ranks that disagree: as Mismatch.
struct Disagreement {
  std::string name;
  uint32_t group = 0;
  std::string sentence;
  uint32_t disputed_slot = 0;
  uint32_t attempt = 0;
  uint32_t next_ordinal = 0;
  uint32_t joins = 0;
};

// The groups of an epoch as one rank knows them, the names in them, the slots that the coordinator has given to names,
// and which names it is asked about. Owned by SubmissionBook, whose lock guards it.
class NameTable {
 public:
  struct Name {
    std::string name;
    uint32_t group = 0;
    uint32_t slot = 0;  // 0: none
    uint32_t retired_slot = 0;
    int outstanding = 0;
    // As RankMeter::Count.
    bool is_given = false;
    uint64_t step = 0;
    FlightRecorder::NameMark flight;
    // The operations that are outstanding, as bits. Under a name of the caller's, each is outstanding at most once.
    uint32_t outstanding_ops = 0;
    enum class Asking { kNot, kQueued, kAsked };
    Asking asking = Asking::kNot;
    // The last disagreement, for as long as it may have to be told again.
    std::optional<Disagreement> told;
    uint32_t ordinal(uint32_t joins) const {
      return told.has_value() && told->disputed_slot == 0 && told->joins == joins ? told->next_ordinal : 0;
    }
    // The request that was submitted last.
    RequestMemo memo;
    // The name that was looked for after this one, last time; valid as long as its group has erased no more names.
    Name* follower = nullptr;
    uint64_t erased = 0;
    std::deque<Submission*> waiting;  // for the slot
    std::deque<Submission*> posted;   // in the slot
    // Behind all that a small collective needs.
    FlightRecorder::Moved moved;
  };
  struct Group {
    std::vector<int> ranks;
    int position = -1;
    absl::Status broken;  // why nothing can be submitted in it any more
    absl::flat_hash_map<std::string, std::unique_ptr<Name>> names;
    // The name that was looked for last; null: none, or it is erased.
    Name* last = nullptr;
    uint64_t erased = 0;  // names so far
    size_t asked = 0;
    // The coordinator is asked for them, in this order, when it has answered others.
    std::deque<Name*> unasked;
  };
  struct SlotName {
    std::string name;
    uint32_t group;
    uint32_t slot;
  };

  // Group 0 has the ranks 0 to size - 1. At most `most_asked` names of a group are asked for at a time.
  NameTable(int rank, int size, size_t most_asked);

  void AddGroup(uint32_t number, std::vector<int> ranks, const absl::Status& broken);
  // Forgets the group's names and their slots.
  void RemoveGroup(uint32_t number);
  // Null: there is no such group.
  Group* FindGroup(uint32_t number);
  const Group* FindGroup(uint32_t number) const;
  // The group must exist.
  Group& group(uint32_t number) { return *FindGroup(number); }
  absl::node_hash_map<uint32_t, Group>& groups() { return groups_; }
  const absl::node_hash_map<uint32_t, Group>& groups() const { return groups_; }
  // Whether there was such a group.
  bool WasRemoved(uint32_t number) const { return number <= newest_group_ && groups_.count(number) == 0; }
  // Whether no submission of the group is outstanding.
  bool IsIdle(uint32_t number) const;

  // Null: it is not known.
  Name* Find(uint32_t group, absl::string_view name);
  // Null: the group does not know it.
  Name* Recall(Group* group, absl::string_view name);
  // `group` has this number.
  Name* FindOrAdd(Group* group, uint32_t number, absl::string_view name);
  // The name in a slot; null: there is none.
  Name* InSlot(uint32_t slot);
  // The submission that was posted first in a slot, which an entry of the log is about; null: there is none.
  Submission* TakePosted(uint32_t slot);
  void SetSlot(Name* name, uint32_t slot);
  // Frees a retired slot. Returns the name that had it. Null: no name had it, or the name had no outstanding submission
  // and is forgotten, so that a program that keeps using new names needs no more memory.
  Name* Retire(uint32_t slot);
  // Takes all submissions of the group's names, posted or waiting, and ends the questions about them.
  std::vector<Submission*> TakePending(uint32_t number);

  // True: the coordinator is to be asked for the name's slot now. False: in its turn, when EndAsking returns it.
  bool BeginAsking(Name* name);
  // The question is answered, or over. Returns the name whose turn it is now; null: none waits.
  Name* EndAsking(Name* name);

  // Whether a submission waits for a slot.
  bool HasWaiting() const;
  // How many names wait for their turn to be asked for.
  uint32_t unasked() const;
  std::vector<SlotName> Slots() const;
  // The last statement about each name without a slot, and about each slot, `joins` being the number of joins of all
  // ranks so far.
  std::vector<Disagreement> Told(uint32_t joins) const;
  // The ranks of all groups but 0.
  std::map<uint32_t, std::vector<int>> Ranks() const;

 private:
  const int rank_;
  const size_t most_asked_;
  absl::node_hash_map<uint32_t, Group> groups_;
  // Group 0.
  Group* all_ = nullptr;
  uint32_t newest_group_ = 0;  // that there was: numbers ascend
  absl::flat_hash_map<uint32_t, Name*> slots_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_NAME_TABLE_H_
