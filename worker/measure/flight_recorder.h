#ifndef FARANDOLE_WORKER_MEASURE_FLIGHT_RECORDER_H_
#define FARANDOLE_WORKER_MEASURE_FLIGHT_RECORDER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"
#include "worker/measure/flight_page.h"

namespace farandole {

// A name as the recorder has it: a long one keeps its ends, in which long names differ.
std::string FlightNameOf(absl::string_view name);

// Writes a rank's FlightPage in one epoch. It reads no clock: its callers have the time already, so that a small
// collective costs some 20 plain instructions more. Owned by the rank's SubmissionBook, whose lock guards it.
class FlightRecorder {
 public:
  // The recorder's part of a name, kept between its submissions.
  struct NameMark {
    uint32_t serial = 0;  // 0: not written yet
    uint32_t submissions = 0;
    // From submission to end, of all that are over.
    int64_t spent_ns = 0;
  };
  // Sums of a name's collectives that have run as batches. Small ones do not touch it.
  struct Moved {
    uint64_t count = 0;
    uint64_t bytes = 0;
    // From start to end; of a batch with other names, the part that its bytes are of the batch's.
    int64_t moving_ns = 0;
    // The op and the device of the latest one.
    uint8_t op = 0;
    bool is_on_gpu = false;
  };
  // Clears `page`, which outlives it; null: it records into memory of its own.
  FlightRecorder(FlightPage* page, int rank, int size, uint64_t epoch);

  // The record of a submission whose name has the mark `mark`, to be filled in and submitted before the next one.
  // `write_name` calls WriteName: the page has the name not yet, or no more.
  template <typename Write>
  FlightRecord* Begin(NameMark* mark, const Write& write_name) {
    if (ABSL_PREDICT_FALSE(mark->serial < oldest_kept_)) write_name();
    FlightRecord* record = At(page_->header.next.load(std::memory_order_relaxed));
    if (ABSL_PREDICT_FALSE(IsOpen(record->state.load(std::memory_order_relaxed)))) record = FindClosed();
    record->name = mark->serial;
    record->ordinal = ++mark->submissions;
    return record;
  }
  void Submit(FlightRecord* record) {
    record->state.store(FlightState::kSubmitted, std::memory_order_release);
    const uint64_t place = page_->header.next.load(std::memory_order_relaxed);
    page_->header.next.store((place + sizeof(FlightRecord)) % sizeof(FlightPage::records), std::memory_order_release);
  }
  void WriteName(absl::string_view name, uint32_t group, uint32_t slot, NameMark* mark);
  // The name has this slot from now on.
  void Assign(const NameMark& mark, uint32_t slot);

  static void Start(FlightRecord* record, uint64_t batch, int64_t now_ns) {
    record->batch = batch;
    record->started_ns = std::max(now_ns, record->submitted_ns);
    record->state.store(FlightState::kStarted, std::memory_order_release);
  }
  static void End(FlightRecord* record, FlightState state, int64_t now_ns) {
    record->ended_ns = now_ns;
    record->state.store(state, std::memory_order_release);
  }

  const FlightPage& page() const { return *page_; }

 private:
  FlightRecord* At(uint64_t place) const {
    return reinterpret_cast<FlightRecord*>(reinterpret_cast<char*>(page_->records) + place);
  }
  ABSL_ATTRIBUTE_NOINLINE FlightRecord* FindClosed();

  std::unique_ptr<FlightPage> own_;
  FlightPage* const page_;
  // Serial of the oldest name that the page keeps for long enough.
  uint32_t oldest_kept_ = 1;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_FLIGHT_RECORDER_H_
