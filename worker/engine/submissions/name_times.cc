#include "worker/engine/submissions/name_times.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/text/plain_text.h"

namespace farandole {
namespace {

uint64_t Finished(const NameTable::Name& name) {
  return name.flight.submissions - static_cast<uint64_t>(name.outstanding);
}

v1::NameTimes TimesOf(const NameTable::Name& name) {
  const FlightRecorder::Moved& moved = name.moved;
  const uint64_t finished = Finished(name);
  // A small one is of the same request again and again: the latest stands for all.
  const uint64_t small_bytes = (finished - std::min(finished, moved.count)) * static_cast<uint64_t>(name.memo.bytes());
  const int64_t waited_ns = std::max<int64_t>(0, name.flight.spent_ns - moved.moving_ns);
  const OpType latest = moved.count > 0 ? static_cast<OpType>(moved.op) : OpType::kAllreduce;
  v1::NameTimes times;
  times.set_name(ValidText(FlightNameOf(name.name)));
  times.set_group(name.group);
  times.set_op(static_cast<v1::OpType>(name.memo.op().value_or(latest)));
  times.set_is_on_gpu(moved.is_on_gpu);
  times.set_finished(finished);
  times.set_bytes(moved.bytes + small_bytes);
  times.set_waited_us(static_cast<uint64_t>(waited_ns / 1000));
  times.set_moved(moved.count);
  times.set_moved_bytes(moved.bytes);
  times.set_moving_us(static_cast<uint64_t>(std::max<int64_t>(0, moved.moving_ns) / 1000));
  return times;
}

}  // namespace

void AddNameTimes(const NameTable& names, v1::FlightRecords* records) {
  std::vector<std::pair<int64_t, const NameTable::Name*>> known;
  for (const auto& [number, group] : names.groups()) {
    for (const auto& [key, name] : group.names) {
      if (Finished(*name) > 0) known.emplace_back(name->flight.spent_ns, name.get());
    }
  }
  if (known.size() > kMostNameTimes) {
    std::nth_element(known.begin(), known.begin() + kMostNameTimes, known.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    records->set_times_left_out(static_cast<uint32_t>(known.size() - kMostNameTimes));
    known.resize(kMostNameTimes);
  }
  for (const auto& [spent_ns, name] : known) *records->add_times() = TimesOf(*name);
}

}  // namespace farandole
