#include "server/job/evidence/flight_judge.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/op_text.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr size_t kMostWaits = 16;
constexpr size_t kMostWaitsTold = 3;
constexpr size_t kMostRanksTold = 4;

using Tensor = std::pair<uint32_t, std::string>;

bool IsOpen(v1::FlightRecord::State state) {
  return state == v1::FlightRecord::SUBMITTED || state == v1::FlightRecord::STARTED || state == v1::FlightRecord::ENDED;
}

// One rank's submissions under one name.
struct Deed {
  uint32_t latest = 0;  // ordinal
  // Not finished, by ordinal.
  std::map<uint32_t, const v1::FlightRecord*> open;
};

class FlightJudge {
 public:
  FlightJudge(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) : flights_(flights), size_(size) {
    for (const auto& [rank, flight] : flights_) {
      for (const v1::FlightRecord& record : flight.records()) Add(rank, flight, record);
    }
  }

  FlightFinding Find() const {
    FlightFinding finding;
    for (const auto& [tensor, deeds] : deeds_) {
      std::set<uint32_t> ordinals;
      for (const auto& [rank, deed] : deeds) {
        for (const auto& [ordinal, record] : deed.open) ordinals.insert(ordinal);
      }
      for (const uint32_t ordinal : ordinals) finding.waits.push_back(Gather(tensor, deeds, ordinal));
    }
    absl::c_stable_sort(finding.waits, [](const v1::FlightWait& a, const v1::FlightWait& b) {
      return std::make_tuple(a.missing_size() == 0, b.waited_us()) <
             std::make_tuple(b.missing_size() == 0, a.waited_us());
    });
    if (finding.waits.size() > kMostWaits) finding.waits.resize(kMostWaits);
    std::vector<std::string> sentences;
    for (const v1::FlightWait& wait : finding.waits) {
      if (sentences.size() < kMostWaitsTold && (wait.missing_size() > 0 || sentences.empty()))
        sentences.push_back(Describe(wait));
    }
    finding.sentence = absl::StrJoin(sentences, "; ");
    return finding;
  }

 private:
  void Add(uint32_t rank, const v1::FlightRecords& flight, const v1::FlightRecord& record) {
    if (record.name() >= static_cast<uint32_t>(flight.names_size()) || record.op() == v1::OP_TYPE_JOIN) return;
    members_[record.group()].insert(rank);
    Deed& deed = deeds_[{record.group(), flight.names(static_cast<int>(record.name()))}][rank];
    deed.latest = std::max(deed.latest, record.ordinal());
    if (IsOpen(record.state())) deed.open[record.ordinal()] = &record;
  }

  v1::FlightWait Gather(const Tensor& tensor, const std::map<uint32_t, Deed>& deeds, uint32_t ordinal) const {
    v1::FlightWait wait;
    wait.set_group(tensor.first);
    wait.set_name(tensor.second);
    wait.set_ordinal(ordinal);
    const auto count = [&](uint32_t rank) {
      const auto deed = deeds.find(rank);
      if (deed == deeds.end() || deed->second.latest < ordinal) {
        if (!IsFull(rank)) wait.add_missing(rank);
        return;
      }
      const auto open = deed->second.open.find(ordinal);
      if (open == deed->second.open.end()) return;
      const v1::FlightRecord& record = *open->second;
      wait.set_op(record.op());
      wait.add_waiting(rank);
      const bool is_over = record.state() == v1::FlightRecord::ENDED;
      wait.set_waited_us(std::max(wait.waited_us(), is_over ? record.ended_after_us() : record.age_us()));
    };
    if (tensor.first == 0) {
      for (uint32_t rank = 0; rank < size_; ++rank) count(rank);
    } else {
      for (const uint32_t rank : members_.at(tensor.first)) count(rank);
    }
    return wait;
  }

  // Whether the rank may have submitted things of which its recorder had no record left.
  bool IsFull(uint32_t rank) const {
    const auto found = flights_.find(rank);
    return found != flights_.end() && found->second.unrecorded() > 0 &&
           absl::c_all_of(found->second.records(), [](const v1::FlightRecord& one) { return IsOpen(one.state()); });
  }

  std::string Describe(const v1::FlightWait& wait) const {
    const std::vector<uint32_t> waiting(wait.waiting().begin(), wait.waiting().end());
    const std::string name = absl::StrCat("'", Plain(wait.name(), 120), "'");
    const std::string where = wait.group() == 0 ? "" : absl::StrCat(" of process set ", wait.group());
    const std::string waits =
        absl::StrCat(ShowRanks(waiting), waiting.size() == 1 ? " waits" : " wait",
                     absl::StrFormat(" since %.1f s", static_cast<double>(wait.waited_us()) / 1e6));
    if (wait.missing_size() == 0) {
      return absl::StrCat("all ranks have submitted ", ShowOp(wait.op()), " ", name, where,
                          ", and it is not finished on ", ShowRanks(waiting),
                          absl::StrFormat(" after %.1f s", static_cast<double>(wait.waited_us()) / 1e6));
    }
    std::vector<std::string> missing;
    for (const uint32_t rank : wait.missing()) {
      if (missing.size() < kMostRanksTold) missing.push_back(absl::StrCat("rank ", rank, " ", LastDeed(rank, wait)));
    }
    const size_t more = static_cast<size_t>(wait.missing_size()) - missing.size();
    if (more > 0) missing.push_back(Count(more, "more rank"));
    const char* const and_have = more > 0 ? " have" : wait.missing_size() == 1 ? " and has" : " and have";
    return absl::StrCat(absl::StrJoin(missing, ", "), and_have, " not submitted ", ShowOp(wait.op()), " ", name, where,
                        ", for which ", waits);
  }

  // "finished 'grad.17' (batch 412) last".
  std::string LastDeed(uint32_t rank, const v1::FlightWait& wait) const {
    const auto found = flights_.find(rank);
    if (found == flights_.end()) return "(of whose last collectives nothing is known)";
    const v1::FlightRecords& flight = found->second;
    const v1::FlightRecord* finished = nullptr;
    const v1::FlightRecord* open = nullptr;
    for (const v1::FlightRecord& record : flight.records()) {
      if (record.name() >= static_cast<uint32_t>(flight.names_size())) continue;
      const std::string& name = flight.names(static_cast<int>(record.name()));
      if (record.state() == v1::FlightRecord::FINISHED && (finished == nullptr || EndedLater(record, *finished)))
        finished = &record;
      if (IsOpen(record.state()) && open == nullptr && (name != wait.name() || record.group() != wait.group()))
        open = &record;
    }
    std::string text =
        finished == nullptr
            ? "has finished nothing"
            : absl::StrCat("finished '", Plain(flight.names(static_cast<int>(finished->name())), 120), "'",
                           finished->batch() == 0 ? "" : absl::StrCat(" (batch ", finished->batch(), ")"), " last");
    if (open != nullptr)
      absl::StrAppend(&text, ", waits in '", Plain(flight.names(static_cast<int>(open->name())), 120), "' itself");
    return text;
  }

  static bool EndedLater(const v1::FlightRecord& a, const v1::FlightRecord& b) {
    const auto ago = [](const v1::FlightRecord& one) {
      return one.age_us() - std::min(one.age_us(), one.ended_after_us());
    };
    return ago(a) <= ago(b);
  }

  const std::map<uint32_t, v1::FlightRecords>& flights_;
  const uint32_t size_;
  std::map<Tensor, std::map<uint32_t, Deed>> deeds_;
  std::map<uint32_t, std::set<uint32_t>> members_;
};

}  // namespace

FlightFinding JudgeFlights(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) {
  return FlightJudge(flights, size).Find();
}

}  // namespace farandole
