#include "worker/measure/flight_reader.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

constexpr size_t kMostUnfinished = 64;

uint64_t Us(int64_t from_ns, int64_t to_ns) {
  // Without a sign: a dead process may have left any numbers.
  return to_ns <= from_ns ? 0 : (static_cast<uint64_t>(to_ns) - static_cast<uint64_t>(from_ns)) / 1000;
}

// Null: it was overwritten.
const FlightName* FindName(const FlightPage& page, uint32_t serial) {
  if (serial == 0) return nullptr;
  const FlightName& row = page.names[(serial - 1) % FlightPage::kNames];
  return row.serial.load(std::memory_order_acquire) == serial ? &row : nullptr;
}

// Indices of the records that have something, the oldest first.
std::vector<uint64_t> Written(const FlightPage& page) {
  std::vector<uint64_t> written;
  const uint64_t next = page.header.next.load() / sizeof(FlightRecord) % FlightPage::kRecords;
  for (uint64_t i = 0; i < FlightPage::kRecords; ++i) {
    const uint64_t index = (next + i) % FlightPage::kRecords;
    const FlightState state = page.records[index].state.load(std::memory_order_acquire);
    if (IsOpen(state) || (state != FlightState::kNone && index != next)) written.push_back(index);
  }
  // Those that were open when others came by are older than their place says.
  std::stable_sort(written.begin(), written.end(),
                   [&](uint64_t a, uint64_t b) { return page.records[a].submitted_ns < page.records[b].submitted_ns; });
  return written;
}

v1::FlightRecord::State StateOf(FlightState state) {
  switch (state) {
    case FlightState::kNone:
      return v1::FlightRecord::STATE_UNSPECIFIED;
    case FlightState::kSubmitted:
      return v1::FlightRecord::SUBMITTED;
    case FlightState::kStarted:
      return v1::FlightRecord::STARTED;
    case FlightState::kFinished:
      return v1::FlightRecord::FINISHED;
    case FlightState::kFailed:
      return v1::FlightRecord::FAILED;
    case FlightState::kEnded:
      return v1::FlightRecord::ENDED;
  }
  return v1::FlightRecord::STATE_UNSPECIFIED;
}

v1::FlightRecord Read(const FlightRecord& record, const FlightName& name, int64_t now_ns) {
  const FlightState state = record.state.load();
  v1::FlightRecord read;
  read.set_ordinal(record.ordinal);
  read.set_group(name.group);
  read.set_slot(name.slot);
  read.set_op(static_cast<v1::OpType>(record.op));
  read.set_dtype(static_cast<v1::DType>(record.dtype));
  read.set_state(StateOf(state));
  read.set_is_on_gpu(record.is_on_gpu != 0);
  // Of a dead process nothing is sure.
  const bool is_known = record.dtype < kDTypeCount && record.count > 0;
  if (is_known) read.set_bytes(static_cast<uint64_t>(record.count) * SizeOf(static_cast<DType>(record.dtype)));
  read.set_age_us(Us(record.submitted_ns, now_ns));
  if (record.started_ns >= record.submitted_ns) {
    read.set_batch(record.batch);
    read.set_started_after_us(Us(record.submitted_ns, record.started_ns));
  }
  if (!IsOpen(state)) read.set_ended_after_us(Us(record.submitted_ns, record.ended_ns));
  return read;
}

}  // namespace

v1::FlightRecords ReadFlight(const FlightPage& page, size_t most, int64_t now_ns) {
  v1::FlightRecords records;
  const FlightHeader& header = page.header;
  if (header.magic.load() != FlightPage::kMagic) return records;
  records.set_epoch(header.epoch);
  records.set_rank(header.rank);
  records.set_size(header.size);
  records.set_pid(header.pid);
  records.set_unrecorded(header.unrecorded);
  const std::vector<uint64_t> written = Written(page);
  const size_t latest = written.size() - std::min(written.size(), most);
  std::map<std::string, uint32_t> names;
  size_t open = 0;
  for (size_t i = 0; i < written.size(); ++i) {
    const FlightRecord& record = page.records[written[i]];
    if (i < latest && (open == kMostUnfinished || !IsOpen(record.state.load()))) continue;
    const FlightName* const row = FindName(page, record.name);
    if (row == nullptr) continue;
    // Its writer may change it meanwhile.
    const uint32_t bytes = row->bytes;
    const std::string name = ValidText({row->text, std::min(bytes, FlightName::kMostBytes)});
    const auto [known, is_new] = names.try_emplace(name, static_cast<uint32_t>(records.names_size()));
    if (is_new) records.add_names(name);
    v1::FlightRecord* const read = records.add_records();
    *read = Read(record, *row, now_ns);
    read->set_name(known->second);
    if (i < latest) ++open;
  }
  return records;
}

}  // namespace farandole
