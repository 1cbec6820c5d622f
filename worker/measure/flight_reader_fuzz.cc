// A flight recorder's page that a dying process, or any other, has left in any state.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "worker/measure/flight_page.h"
#include "worker/measure/flight_reader.h"

// The input is laid over the page's head, its records and its names by turns, since all of it would be long.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static farandole::FlightPage* const page = new farandole::FlightPage();
  char* const bytes = reinterpret_cast<char*>(page);
  std::memset(bytes, 0, sizeof(*page));
  const struct {
    void* at;
    size_t most;
  } places[] = {{&page->header, sizeof(page->header)},
                {page->records, 8 * sizeof(page->records[0])},
                {page->names, 8 * sizeof(page->names[0])},
                {page->records + 1000, 24 * sizeof(page->records[0])}};
  size_t at = 0;
  for (const auto& place : places) {
    const size_t part = std::min(place.most, size - at);
    std::memcpy(place.at, data + at, part);
    at += part;
  }
  const farandole::v1::FlightRecords records = farandole::ReadFlight(*page, farandole::kShownFlights, 1'000'000'000);
  FD_CHECK_LE(static_cast<size_t>(records.records_size()), farandole::kShownFlights + 64);
  for (const auto& record : records.records()) FD_CHECK_LT(static_cast<int>(record.name()), records.names_size());
  // As protobuf wants texts.
  FD_CHECK(farandole::v1::FlightRecords().ParseFromString(records.SerializeAsString()));
  return 0;
}
