#include "worker/measure/flight_recorder.h"

#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Looked at by one submission, which finds them open.
constexpr int kMostSkipped = 16;

constexpr absl::string_view kCut = "...";
constexpr size_t kHead = 56;
constexpr size_t kTail = FlightName::kMostBytes - kHead - kCut.size();

void Clear(FlightPage* page) {
  page->header.magic.store(0);
  page->header.next.store(0);
  page->header.names = 0;
  page->header.unrecorded = 0;
  for (FlightRecord& record : page->records) record.state.store(FlightState::kNone);
}

}  // namespace

std::string FlightNameOf(absl::string_view name) {
  if (name.size() <= FlightName::kMostBytes) return std::string(name);
  return absl::StrCat(name.substr(0, kHead), kCut, name.substr(name.size() - kTail));
}

FlightRecorder::FlightRecorder(FlightPage* page, int rank, int size, uint64_t epoch)
    : own_(page == nullptr ? std::make_unique<FlightPage>() : nullptr), page_(page == nullptr ? own_.get() : page) {
  FlightHeader& header = page_->header;
  Clear(page_);
  header.rank = static_cast<uint32_t>(rank);
  header.size = static_cast<uint32_t>(size);
  header.epoch = epoch;
  header.pid = getpid();
  header.magic.store(FlightPage::kMagic);
}

FlightRecord* FlightRecorder::FindClosed() {
  FlightHeader& header = page_->header;
  uint64_t place = header.next.load();
  for (int skipped = 0; skipped < kMostSkipped; ++skipped) {
    if (!IsOpen(At(place)->state.load())) {
      header.next.store(place);
      return At(place);
    }
    place = (place + sizeof(FlightRecord)) % sizeof(FlightPage::records);
  }
  header.next.store(place);
  ++header.unrecorded;
  return &page_->spare;
}

void FlightRecorder::WriteName(absl::string_view name, uint32_t group, uint32_t slot, NameMark* mark) {
  const uint32_t serial = page_->header.names + 1;
  FlightName& row = page_->names[(serial - 1) % FlightPage::kNames];
  row.serial.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  row.group = group;
  row.slot = slot;
  const std::string cut = name.size() > FlightName::kMostBytes ? FlightNameOf(name) : "";
  const absl::string_view shown = cut.empty() ? name : cut;
  std::memcpy(row.text, shown.data(), shown.size());
  row.bytes = static_cast<uint32_t>(shown.size());
  row.serial.store(serial, std::memory_order_release);
  page_->header.names = serial;
  mark->serial = serial;
  constexpr uint32_t kKept = FlightPage::kNames - static_cast<uint32_t>(FlightPage::kRecords);
  if (serial > kKept) oldest_kept_ = serial - kKept + 1;
}

void FlightRecorder::Assign(const NameMark& mark, uint32_t slot) {
  if (mark.serial == 0) return;
  FlightName& row = page_->names[(mark.serial - 1) % FlightPage::kNames];
  if (row.serial.load(std::memory_order_relaxed) == mark.serial) row.slot = slot;
}

}  // namespace farandole
