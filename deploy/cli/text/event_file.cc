#include "deploy/cli/text/event_file.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Of a field's key, beside its number.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

std::array<uint32_t, 256> MakeTable() {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1) != 0 ? rest >> 1 ^ kReversedPolynomial : rest >> 1;
    table[i] = rest;
  }
  return table;
}

// Little-endian, as all of these hosts are.
template <typename Number>
void AppendBytes(Number number, std::string* bytes) {
  char raw[sizeof(number)];
  std::memcpy(raw, &number, sizeof(number));
  bytes->append(raw, sizeof(number));
}

void AppendVarint(uint64_t number, std::string* bytes) {
  for (; number >= 0x80; number >>= 7) bytes->push_back(static_cast<char>(number | 0x80));
  bytes->push_back(static_cast<char>(number));
}

void AppendKey(uint32_t field, uint32_t type, std::string* bytes) { AppendVarint(field << 3 | type, bytes); }

void AppendField(uint32_t field, absl::string_view value, std::string* bytes) {
  AppendKey(field, kBytes, bytes);
  AppendVarint(value.size(), bytes);
  bytes->append(value.data(), value.size());
}

// TFRecord's checksum.
uint32_t Masked(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

void AppendRecord(const std::string& event, std::string* file) {
  std::string length;
  AppendBytes<uint64_t>(event.size(), &length);
  file->append(length);
  AppendBytes(Masked(length), file);
  file->append(event);
  AppendBytes(Masked(event), file);
}

std::string EventAt(double unix_seconds) {
  std::string event;
  AppendKey(1, kFixed64, &event);
  AppendBytes(unix_seconds, &event);
  return event;
}

std::string ScalarEvent(const std::string& tag, int64_t step, double value, double unix_seconds) {
  std::string of_tag;
  AppendField(1, tag, &of_tag);
  AppendKey(2, kFixed32, &of_tag);
  AppendBytes(static_cast<float>(value), &of_tag);
  std::string summary;
  AppendField(1, of_tag, &summary);
  std::string event = EventAt(unix_seconds);
  AppendKey(2, kVarint, &event);
  AppendVarint(static_cast<uint64_t>(step), &event);
  AppendField(5, summary, &event);
  return event;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static const std::array<uint32_t, 256> table = MakeTable();
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::map<std::string, std::string> EventFiles(const v1::ListLoggedResponse& logged) {
  std::map<std::string, std::string> files;
  for (const v1::LoggedSeries& series : logged.series()) {
    std::string& file = files[series.has_rank() ? absl::StrCat("rank", series.rank()) : ""];
    for (int i = 0; i < series.first_step_size(); ++i) {
      const double unix_seconds = static_cast<double>(series.at_unix_ms(i)) / 1000;
      if (file.empty()) {
        std::string event = EventAt(unix_seconds);
        AppendField(3, "brain.Event:2", &event);
        AppendRecord(event, &file);
      }
      AppendRecord(ScalarEvent(series.name(), series.last_step(i), series.mean(i), unix_seconds), &file);
    }
  }
  return files;
}

}  // namespace farandole
